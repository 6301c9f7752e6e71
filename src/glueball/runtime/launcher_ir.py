"""The native launcher's code, as LLVM IR text.

One body serves every kernel: it loops over the arguments, so nothing here depends on a signature. `$name` stands for
an address that is known when the text is filled in: a function of CPython's C API (`$Py...`), or one of the objects
that `launcher_native` lists (types, interned attribute names). Addresses as constants need no symbol resolution.

Memory that Python prepares and this code reads, all in 64-bit words:

    state       variants (dict), miss, grid (tuple), tensor types, parameters, grid x, y, z
    tensor types  count, then the types
    parameters  count, then per parameter: name, flags
    record      launch, function, block x, y, z, shared bytes, context function, context, kernel, stream callable,
                stream argument, launch_failed, guard count, argument count; then per guard: dict, name, value; then
                per kernel argument the index of the call's argument

The key of a call is `positional | keywords << 32`, then per argument two words, before them the name of a keyword
argument. The two words are

    tensor      dtype (address)    1 << 63 | type index << 40 | device << 1 (32 bits) | aligned
    int         width tag 1 to 3   is one | divisible by 16 << 1
    float       tag 4              0
    bool        tag 5              0
    constexpr   tag + 16           the value, for int and float
    other       object (address)   0

Tags are smaller than any address, so two different calls never share a key while the objects whose addresses are in
it live; the stored variant keeps them alive.
"""

from __future__ import annotations

MAXIMUM_ARGUMENTS = 128

_ENCODING = """
; Every encode function writes the two key words and the raw value. It returns 0; 1 where the argument has no key; -1
; with a Python error set.

define internal i32 @encode_object(ptr %object, ptr %words, ptr %value, ptr %references) {
  %address = ptrtoint ptr %object to i64
  %second = getelementptr i64, ptr %words, i64 1
  store i64 %address, ptr %words
  store i64 0, ptr %second
  store i64 0, ptr %value
  %recorded = call i32 @record(ptr %references, ptr %object)
  ret i32 %recorded
}

define internal i32 @record(ptr %references, ptr %object) {
  %absent = icmp eq ptr %references, null
  br i1 %absent, label %skip, label %append
append:
  %status = call i32 $PyList_Append(ptr %references, ptr %object)
  ret i32 %status
skip:
  ret i32 0
}

define internal i32 @encode_integer(ptr %object, i64 %flags, ptr %words, ptr %value, ptr %references) {
entry:
  %overflow_slot = alloca i32
  %signed = call i64 $PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow_slot)
  %overflow = load i32, ptr %overflow_slot
  switch i32 %overflow, label %too_wide [ i32 0, label %fits i32 1, label %unsigned ]
fits:
  %low = trunc i64 %signed to i32
  %widened = sext i32 %low to i64
  %is_narrow = icmp eq i64 %widened, %signed
  %signed_tag = select i1 %is_narrow, i64 1, i64 2
  br label %encode
unsigned:
  %wide = call i64 $PyLong_AsUnsignedLongLong(ptr %object)
  %is_all_ones = icmp eq i64 %wide, -1
  br i1 %is_all_ones, label %check_error, label %encode
check_error:
  %error = call ptr $PyErr_Occurred()
  %is_error = icmp ne ptr %error, null
  br i1 %is_error, label %clear_error, label %encode
clear_error:
  call void $PyErr_Clear()
  br label %too_wide
too_wide:
  %wide_constexpr_bit = and i64 %flags, 4
  %wide_is_constexpr = icmp ne i64 %wide_constexpr_bit, 0
  br i1 %wide_is_constexpr, label %identity, label %no_key
identity:
  %identity_status = call i32 @encode_object(ptr %object, ptr %words, ptr %value, ptr %references)
  ret i32 %identity_status
no_key:
  ret i32 1
encode:
  %number = phi i64 [ %signed, %fits ], [ %wide, %unsigned ], [ %wide, %check_error ]
  %tag = phi i64 [ %signed_tag, %fits ], [ 3, %unsigned ], [ 3, %check_error ]
  store i64 %number, ptr %value
  %constexpr_bit = and i64 %flags, 4
  %is_constexpr = icmp ne i64 %constexpr_bit, 0
  %equals_one = icmp eq i64 %number, 1
  %value_bit = and i64 %flags, 1
  %value_matters = icmp eq i64 %value_bit, 0
  %one = and i1 %equals_one, %value_matters
  %remainder = and i64 %number, 15
  %is_divisible = icmp eq i64 %remainder, 0
  %alignment_bit = and i64 %flags, 2
  %alignment_matters = icmp eq i64 %alignment_bit, 0
  %divisible = and i1 %is_divisible, %alignment_matters
  %one_word = zext i1 %one to i64
  %divisible_word = zext i1 %divisible to i64
  %divisible_shifted = shl i64 %divisible_word, 1
  %facts = or i64 %one_word, %divisible_shifted
  %constexpr_tag = add i64 %tag, 16
  %first_word = select i1 %is_constexpr, i64 %constexpr_tag, i64 %tag
  %second_word = select i1 %is_constexpr, i64 %number, i64 %facts
  %second = getelementptr i64, ptr %words, i64 1
  store i64 %first_word, ptr %words
  store i64 %second_word, ptr %second
  ret i32 0
}

define internal i32 @encode_float(ptr %object, i64 %flags, ptr %words, ptr %value) {
  %number = call double $PyFloat_AsDouble(ptr %object)
  %bits64 = bitcast double %number to i64
  %single = fptrunc double %number to float
  %bits32 = bitcast float %single to i32
  %bits32_word = zext i32 %bits32 to i64
  %double_bit = and i64 %flags, 8
  %is_double = icmp ne i64 %double_bit, 0
  %raw = select i1 %is_double, i64 %bits64, i64 %bits32_word
  store i64 %raw, ptr %value
  %constexpr_bit = and i64 %flags, 4
  %is_constexpr = icmp ne i64 %constexpr_bit, 0
  %first_word = select i1 %is_constexpr, i64 20, i64 4
  %second_word = select i1 %is_constexpr, i64 %bits64, i64 0
  %second = getelementptr i64, ptr %words, i64 1
  store i64 %first_word, ptr %words
  store i64 %second_word, ptr %second
  ret i32 0
}

define internal i32 @encode_bool(ptr %object, ptr %words, ptr %value) {
  %is_true = icmp eq ptr %object, $true
  %raw = zext i1 %is_true to i64
  store i64 %raw, ptr %value
  %second = getelementptr i64, ptr %words, i64 1
  store i64 5, ptr %words
  store i64 0, ptr %second
  ret i32 0
}

define internal i32 @encode_tensor(ptr %object, i64 %index, i64 %flags, ptr %words, ptr %value, ptr %references) {
entry:
  %self = alloca ptr
  store ptr %object, ptr %self
  %pointer_object = call ptr $PyObject_VectorcallMethod(ptr $data_ptr, ptr %self, i64 1, ptr null)
  %no_pointer = icmp eq ptr %pointer_object, null
  br i1 %no_pointer, label %failed, label %read_pointer
read_pointer:
  %pointer = call i64 $PyLong_AsUnsignedLongLong(ptr %pointer_object)
  call void $Py_DecRef(ptr %pointer_object)
  store i64 %pointer, ptr %value
  %pointer_all_ones = icmp eq i64 %pointer, -1
  br i1 %pointer_all_ones, label %check_pointer, label %read_dtype
check_pointer:
  %pointer_error = call ptr $PyErr_Occurred()
  %pointer_failed = icmp ne ptr %pointer_error, null
  br i1 %pointer_failed, label %failed, label %read_dtype
read_dtype:
  %dtype = call ptr $PyObject_GetAttr(ptr %object, ptr $dtype)
  %no_dtype = icmp eq ptr %dtype, null
  br i1 %no_dtype, label %failed, label %record_dtype
record_dtype:
  %recorded = call i32 @record(ptr %references, ptr %dtype)
  call void $Py_DecRef(ptr %dtype)
  %dtype_address = ptrtoint ptr %dtype to i64
  store i64 %dtype_address, ptr %words
  %record_failed = icmp slt i32 %recorded, 0
  br i1 %record_failed, label %failed, label %read_device
read_device:
  %device_object = call ptr $PyObject_VectorcallMethod(ptr $get_device, ptr %self, i64 1, ptr null)
  %no_device = icmp eq ptr %device_object, null
  br i1 %no_device, label %failed, label %convert_device
convert_device:
  %device = call i64 $PyLong_AsLongLong(ptr %device_object)
  call void $Py_DecRef(ptr %device_object)
  %device_minus_one = icmp eq i64 %device, -1
  br i1 %device_minus_one, label %check_device, label %finish
check_device:
  %device_error = call ptr $PyErr_Occurred()
  %device_failed = icmp ne ptr %device_error, null
  br i1 %device_failed, label %failed, label %finish
finish:
  %remainder = and i64 %pointer, 15
  %is_divisible = icmp eq i64 %remainder, 0
  %alignment_bit = and i64 %flags, 2
  %alignment_matters = icmp eq i64 %alignment_bit, 0
  %aligned = and i1 %is_divisible, %alignment_matters
  %aligned_word = zext i1 %aligned to i64
  %device_low = and i64 %device, 4294967295
  %device_shifted = shl i64 %device_low, 1
  %index_shifted = shl i64 %index, 40
  %marked = or i64 %index_shifted, -9223372036854775808
  %with_device = or i64 %marked, %device_shifted
  %second_word = or i64 %with_device, %aligned_word
  %second = getelementptr i64, ptr %words, i64 1
  store i64 %second_word, ptr %second
  ret i32 0
failed:
  ret i32 -1
}

define internal i32 @encode(ptr %types, ptr %object, i64 %flags, ptr %words, ptr %value, ptr %references) {
entry:
  ; The type is the second word of an object in every build this launcher accepts.
  %type_slot = getelementptr ptr, ptr %object, i64 1
  %type = load ptr, ptr %type_slot
  %constexpr_bit = and i64 %flags, 4
  %is_constexpr = icmp ne i64 %constexpr_bit, 0
  %is_integer = icmp eq ptr %type, $int
  br i1 %is_integer, label %integer, label %not_integer
integer:
  %integer_status = call i32 @encode_integer(ptr %object, i64 %flags, ptr %words, ptr %value, ptr %references)
  ret i32 %integer_status
not_integer:
  %is_float = icmp eq ptr %type, $float
  br i1 %is_float, label %floating, label %not_float
floating:
  %float_status = call i32 @encode_float(ptr %object, i64 %flags, ptr %words, ptr %value)
  ret i32 %float_status
not_float:
  br i1 %is_constexpr, label %identity, label %runtime
runtime:
  %is_bool = icmp eq ptr %type, $bool
  br i1 %is_bool, label %boolean, label %search
boolean:
  %bool_status = call i32 @encode_bool(ptr %object, ptr %words, ptr %value)
  ret i32 %bool_status
search:
  %count = load i64, ptr %types
  br label %next
next:
  %index = phi i64 [ 0, %search ], [ %following, %compare ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %compare, label %identity
compare:
  %following = add i64 %index, 1
  %candidate_slot = getelementptr ptr, ptr %types, i64 %following
  %candidate = load ptr, ptr %candidate_slot
  %matches = icmp eq ptr %candidate, %type
  br i1 %matches, label %tensor, label %next
tensor:
  %tensor_status = call i32 @encode_tensor(ptr %object, i64 %index, i64 %flags, ptr %words, ptr %value, ptr %references)
  ret i32 %tensor_status
identity:
  %identity_status = call i32 @encode_object(ptr %object, ptr %words, ptr %value, ptr %references)
  ret i32 %identity_status
}
"""

_KEY = """
; A keyword that names no parameter is a launch option, hence constexpr.
define internal i64 @flags_of_name(ptr %parameters, ptr %name) {
entry:
  %count = load i64, ptr %parameters
  br label %next
next:
  %index = phi i64 [ 0, %entry ], [ %following, %compare ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %compare, label %option
compare:
  %following = add i64 %index, 1
  %doubled = shl i64 %index, 1
  %name_index = add i64 %doubled, 1
  %name_slot = getelementptr ptr, ptr %parameters, i64 %name_index
  %candidate = load ptr, ptr %name_slot
  %matches = icmp eq ptr %candidate, %name
  br i1 %matches, label %found, label %next
found:
  %flags = call i64 @flags_at(ptr %parameters, i64 %index)
  ret i64 %flags
option:
  ret i64 4
}

define internal i64 @flags_at(ptr %parameters, i64 %index) {
  %count = load i64, ptr %parameters
  %known = icmp slt i64 %index, %count
  br i1 %known, label %read, label %surplus
read:
  %doubled = shl i64 %index, 1
  %flags_index = add i64 %doubled, 2
  %flags_slot = getelementptr i64, ptr %parameters, i64 %flags_index
  %flags = load i64, ptr %flags_slot
  ret i64 %flags
surplus:
  ret i64 0
}

; The number of key words written; 0 where the call has no key; -1 with a Python error set.
define internal i64 @compute_key(ptr %state, ptr %arguments, i64 %positional, i64 %keywords, ptr %names, ptr %words,
                                 ptr %values, ptr %references) {
entry:
  %types_slot = getelementptr ptr, ptr %state, i64 3
  %types = load ptr, ptr %types_slot
  %parameters_slot = getelementptr ptr, ptr %state, i64 4
  %parameters = load ptr, ptr %parameters_slot
  %total = add i64 %positional, %keywords
  %too_many = icmp sgt i64 %total, $maximum
  br i1 %too_many, label %no_key, label %begin
begin:
  %keywords_shifted = shl i64 %keywords, 32
  %header = or i64 %positional, %keywords_shifted
  store i64 %header, ptr %words
  br label %next
next:
  %index = phi i64 [ 0, %begin ], [ %following, %encoded ]
  %cursor = phi i64 [ 1, %begin ], [ %cursor_after, %encoded ]
  %more = icmp slt i64 %index, %total
  br i1 %more, label %argument, label %done
argument:
  %argument_slot = getelementptr ptr, ptr %arguments, i64 %index
  %object = load ptr, ptr %argument_slot
  %is_positional = icmp slt i64 %index, %positional
  br i1 %is_positional, label %by_position, label %by_name
by_position:
  %position_flags = call i64 @flags_at(ptr %parameters, i64 %index)
  br label %encode
by_name:
  %name_index = sub i64 %index, %positional
  %name = call ptr $PyTuple_GetItem(ptr %names, i64 %name_index)
  %name_flags = call i64 @flags_of_name(ptr %parameters, ptr %name)
  %name_address = ptrtoint ptr %name to i64
  %name_slot = getelementptr i64, ptr %words, i64 %cursor
  store i64 %name_address, ptr %name_slot
  %cursor_of_named = add i64 %cursor, 1
  %name_recorded = call i32 @record(ptr %references, ptr %name)
  %name_failed = icmp slt i32 %name_recorded, 0
  br i1 %name_failed, label %failed, label %encode
encode:
  %flags = phi i64 [ %position_flags, %by_position ], [ %name_flags, %by_name ]
  %cursor_here = phi i64 [ %cursor, %by_position ], [ %cursor_of_named, %by_name ]
  %argument_words = getelementptr i64, ptr %words, i64 %cursor_here
  %value = getelementptr i64, ptr %values, i64 %index
  %status = call i32 @encode(ptr %types, ptr %object, i64 %flags, ptr %argument_words, ptr %value, ptr %references)
  switch i32 %status, label %failed [ i32 0, label %encoded i32 1, label %no_key ]
encoded:
  %following = add i64 %index, 1
  %cursor_after = add i64 %cursor_here, 2
  br label %next
done:
  ret i64 %cursor
no_key:
  ret i64 0
failed:
  ret i64 -1
}

define internal i64 @count_names(ptr %names) {
  %absent = icmp eq ptr %names, null
  br i1 %absent, label %none, label %some
some:
  %count = call i64 $PyTuple_Size(ptr %names)
  ret i64 %count
none:
  ret i64 0
}

; key(references, *arguments, **keywords) -> bytes | None. `references` (a list) receives the objects in the key.
define ptr @key(ptr %self, ptr %arguments, i64 %count, ptr %names) {
entry:
  %words = alloca [$words x i64]
  %values = alloca [$maximum x i64]
  %state_bytes = call ptr $PyTuple_GetItem(ptr %self, i64 0)
  %state = call ptr $PyBytes_AsString(ptr %state_bytes)
  %references = load ptr, ptr %arguments
  %rest = getelementptr ptr, ptr %arguments, i64 1
  %positional = sub i64 %count, 1
  %keywords = call i64 @count_names(ptr %names)
  %size = call i64 @compute_key(ptr %state, ptr %rest, i64 %positional, i64 %keywords, ptr %names, ptr %words,
                                ptr %values, ptr %references)
  switch i64 %size, label %make [ i64 -1, label %failed i64 0, label %no_key ]
make:
  %bytes = shl i64 %size, 3
  %key = call ptr $PyBytes_FromStringAndSize(ptr %words, i64 %bytes)
  ret ptr %key
no_key:
  call void $Py_IncRef(ptr $none)
  ret ptr $none
failed:
  ret ptr null
}
"""

_MISS = """
; miss(grid, arguments, keywords), whose result is the launch's.
define internal ptr @call_miss(ptr %state, ptr %arguments, i64 %positional, i64 %keywords, ptr %names) {
entry:
  %call = alloca [3 x ptr]
  %miss_slot = getelementptr ptr, ptr %state, i64 1
  %miss = load ptr, ptr %miss_slot
  %grid_slot = getelementptr ptr, ptr %state, i64 2
  %grid = load ptr, ptr %grid_slot
  %tuple = call ptr $PyTuple_New(i64 %positional)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %failed, label %next
next:
  %index = phi i64 [ 0, %entry ], [ %following, %fill ]
  %more = icmp slt i64 %index, %positional
  br i1 %more, label %fill, label %make_dict
fill:
  %argument_slot = getelementptr ptr, ptr %arguments, i64 %index
  %argument = load ptr, ptr %argument_slot
  call void $Py_IncRef(ptr %argument)
  %ignored = call i32 $PyTuple_SetItem(ptr %tuple, i64 %index, ptr %argument)
  %following = add i64 %index, 1
  br label %next
make_dict:
  %dict = call ptr $PyDict_New()
  %no_dict = icmp eq ptr %dict, null
  br i1 %no_dict, label %drop_tuple, label %next_name
next_name:
  %name_index = phi i64 [ 0, %make_dict ], [ %name_following, %fill_name ]
  %more_names = icmp slt i64 %name_index, %keywords
  br i1 %more_names, label %fill_name, label %invoke
fill_name:
  %name = call ptr $PyTuple_GetItem(ptr %names, i64 %name_index)
  %named_index = add i64 %positional, %name_index
  %named_slot = getelementptr ptr, ptr %arguments, i64 %named_index
  %named = load ptr, ptr %named_slot
  %status = call i32 $PyDict_SetItem(ptr %dict, ptr %name, ptr %named)
  %name_following = add i64 %name_index, 1
  %set_failed = icmp slt i32 %status, 0
  br i1 %set_failed, label %drop_both, label %next_name
invoke:
  %second = getelementptr ptr, ptr %call, i64 1
  %third = getelementptr ptr, ptr %call, i64 2
  store ptr %grid, ptr %call
  store ptr %tuple, ptr %second
  store ptr %dict, ptr %third
  %outcome = call ptr $PyObject_Vectorcall(ptr %miss, ptr %call, i64 3, ptr null)
  br label %drop_both
drop_both:
  %result = phi ptr [ %outcome, %invoke ], [ null, %fill_name ]
  call void $Py_DecRef(ptr %dict)
  call void $Py_DecRef(ptr %tuple)
  ret ptr %result
drop_tuple:
  call void $Py_DecRef(ptr %tuple)
  ret ptr null
failed:
  ret ptr null
}
"""

_LAUNCH = """
; Whether every global that the kernel was compiled with is still bound to the same object.
define internal i1 @guards_hold(ptr %record) {
entry:
  %count_slot = getelementptr i64, ptr %record, i64 12
  %count = load i64, ptr %count_slot
  %first = getelementptr ptr, ptr %record, i64 14
  br label %next
next:
  %index = phi i64 [ 0, %entry ], [ %following, %check ]
  %guard = phi ptr [ %first, %entry ], [ %guard_after, %check ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %check, label %hold
check:
  %name_slot = getelementptr ptr, ptr %guard, i64 1
  %value_slot = getelementptr ptr, ptr %guard, i64 2
  %dict = load ptr, ptr %guard
  %name = load ptr, ptr %name_slot
  %expected = load ptr, ptr %value_slot
  %actual = call ptr $PyDict_GetItemWithError(ptr %dict, ptr %name)
  %following = add i64 %index, 1
  %guard_after = getelementptr ptr, ptr %guard, i64 3
  %same = icmp eq ptr %actual, %expected
  br i1 %same, label %next, label %changed
changed:
  call void $PyErr_Clear()
  ret i1 false
hold:
  ret i1 true
}

define internal i1 @context_holds(ptr %record) {
entry:
  %current_slot = alloca ptr
  store ptr null, ptr %current_slot
  %function_slot = getelementptr ptr, ptr %record, i64 6
  %function = load ptr, ptr %function_slot
  %unchecked = icmp eq ptr %function, null
  br i1 %unchecked, label %holds, label %ask
ask:
  %status = call i32 %function(ptr %current_slot)
  %current = load ptr, ptr %current_slot
  %expected_slot = getelementptr ptr, ptr %record, i64 7
  %expected = load ptr, ptr %expected_slot
  %same = icmp eq ptr %current, %expected
  %succeeded = icmp eq i32 %status, 0
  %both = and i1 %same, %succeeded
  ret i1 %both
holds:
  ret i1 true
}

; Writes the stream; false with a Python error set.
define internal i1 @read_stream(ptr %record, ptr %stream_slot) {
entry:
  store ptr null, ptr %stream_slot
  %callable_slot = getelementptr ptr, ptr %record, i64 9
  %callable = load ptr, ptr %callable_slot
  %default = icmp eq ptr %callable, null
  br i1 %default, label %good, label %ask
ask:
  %argument_slot = getelementptr ptr, ptr %record, i64 10
  %object = call ptr $PyObject_Vectorcall(ptr %callable, ptr %argument_slot, i64 1, ptr null)
  %raised = icmp eq ptr %object, null
  br i1 %raised, label %bad, label %convert
convert:
  %handle = call i64 $PyLong_AsUnsignedLongLong(ptr %object)
  call void $Py_DecRef(ptr %object)
  store i64 %handle, ptr %stream_slot
  %all_ones = icmp eq i64 %handle, -1
  br i1 %all_ones, label %check, label %good
check:
  %error = call ptr $PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %bad, label %good
good:
  ret i1 true
bad:
  ret i1 false
}

define internal ptr @report(ptr %record, i32 %status) {
entry:
  %call = alloca [1 x ptr]
  %wide = sext i32 %status to i64
  %number = call ptr $PyLong_FromLongLong(i64 %wide)
  %no_number = icmp eq ptr %number, null
  br i1 %no_number, label %failed, label %invoke
invoke:
  store ptr %number, ptr %call
  %handler_slot = getelementptr ptr, ptr %record, i64 11
  %handler = load ptr, ptr %handler_slot
  %result = call ptr $PyObject_Vectorcall(ptr %handler, ptr %call, i64 1, ptr null)
  call void $Py_DecRef(ptr %number)
  ret ptr %result
failed:
  ret ptr null
}

; Calls the driver without the interpreter lock: a full queue blocks, and what drains it may need the lock.
define internal i32 @enqueue(ptr %state, ptr %record, ptr %values, ptr %stream) {
entry:
  %pointers = alloca [$maximum x ptr]
  %guards_slot = getelementptr i64, ptr %record, i64 12
  %guards = load i64, ptr %guards_slot
  %count_slot = getelementptr i64, ptr %record, i64 13
  %count = load i64, ptr %count_slot
  %guard_words = mul i64 %guards, 3
  %start = add i64 %guard_words, 14
  %indices = getelementptr i64, ptr %record, i64 %start
  br label %next
next:
  %position = phi i64 [ 0, %entry ], [ %following, %fill ]
  %more = icmp slt i64 %position, %count
  br i1 %more, label %fill, label %go
fill:
  %index_slot = getelementptr i64, ptr %indices, i64 %position
  %index = load i64, ptr %index_slot
  %value = getelementptr i64, ptr %values, i64 %index
  %pointer_slot = getelementptr ptr, ptr %pointers, i64 %position
  store ptr %value, ptr %pointer_slot
  %following = add i64 %position, 1
  br label %next
go:
  %launch = load ptr, ptr %record
  %function_slot = getelementptr ptr, ptr %record, i64 1
  %function = load ptr, ptr %function_slot
  %block_x_slot = getelementptr i64, ptr %record, i64 2
  %block_x = load i32, ptr %block_x_slot
  %block_y_slot = getelementptr i64, ptr %record, i64 3
  %block_y = load i32, ptr %block_y_slot
  %block_z_slot = getelementptr i64, ptr %record, i64 4
  %block_z = load i32, ptr %block_z_slot
  %shared_slot = getelementptr i64, ptr %record, i64 5
  %shared = load i32, ptr %shared_slot
  %x_slot = getelementptr i64, ptr %state, i64 5
  %x = load i32, ptr %x_slot
  %y_slot = getelementptr i64, ptr %state, i64 6
  %y = load i32, ptr %y_slot
  %z_slot = getelementptr i64, ptr %state, i64 7
  %z = load i32, ptr %z_slot
  %thread = call ptr $PyEval_SaveThread()
  %status = call i32 %launch(ptr %function, i32 %x, i32 %y, i32 %z, i32 %block_x, i32 %block_y, i32 %block_z,
                             i32 %shared, ptr %stream, ptr %pointers, ptr null)
  call void $PyEval_RestoreThread(ptr %thread)
  ret i32 %status
}

define internal i1 @grid_is_empty(ptr %state) {
  %x_slot = getelementptr i64, ptr %state, i64 5
  %x = load i64, ptr %x_slot
  %y_slot = getelementptr i64, ptr %state, i64 6
  %y = load i64, ptr %y_slot
  %z_slot = getelementptr i64, ptr %state, i64 7
  %z = load i64, ptr %z_slot
  %no_x = icmp eq i64 %x, 0
  %no_y = icmp eq i64 %y, 0
  %no_z = icmp eq i64 %z, 0
  %no_xy = or i1 %no_x, %no_y
  %empty = or i1 %no_xy, %no_z
  ret i1 %empty
}

define ptr @launch(ptr %self, ptr %arguments, i64 %positional, ptr %names) {
entry:
  %words = alloca [$words x i64]
  %values = alloca [$maximum x i64]
  %stream_slot = alloca ptr
  %state_bytes = call ptr $PyTuple_GetItem(ptr %self, i64 0)
  %state = call ptr $PyBytes_AsString(ptr %state_bytes)
  %keywords = call i64 @count_names(ptr %names)
  %size = call i64 @compute_key(ptr %state, ptr %arguments, i64 %positional, i64 %keywords, ptr %names, ptr %words,
                                ptr %values, ptr null)
  switch i64 %size, label %look_up [ i64 -1, label %failed i64 0, label %miss ]
look_up:
  %bytes = shl i64 %size, 3
  %key = call ptr $PyBytes_FromStringAndSize(ptr %words, i64 %bytes)
  %no_key = icmp eq ptr %key, null
  br i1 %no_key, label %failed, label %search
search:
  %variants = load ptr, ptr %state
  %entry_object = call ptr $PyDict_GetItemWithError(ptr %variants, ptr %key)
  call void $Py_DecRef(ptr %key)
  %unknown = icmp eq ptr %entry_object, null
  br i1 %unknown, label %check_error, label %hit
check_error:
  %error = call ptr $PyErr_Occurred()
  %is_error = icmp ne ptr %error, null
  br i1 %is_error, label %failed, label %miss
hit:
  ; The entry may leave the table while Python code runs below; this reference keeps all it holds.
  call void $Py_IncRef(ptr %entry_object)
  %record_bytes = call ptr $PyTuple_GetItem(ptr %entry_object, i64 0)
  %record = call ptr $PyBytes_AsString(ptr %record_bytes)
  %unchanged = call i1 @guards_hold(ptr %record)
  br i1 %unchanged, label %check_grid, label %stale
check_grid:
  %empty = call i1 @grid_is_empty(ptr %state)
  br i1 %empty, label %succeeded, label %check_context
check_context:
  %in_context = call i1 @context_holds(ptr %record)
  br i1 %in_context, label %find_stream, label %stale
find_stream:
  %found = call i1 @read_stream(ptr %record, ptr %stream_slot)
  br i1 %found, label %enqueue, label %release
enqueue:
  %stream = load ptr, ptr %stream_slot
  %status = call i32 @enqueue(ptr %state, ptr %record, ptr %values, ptr %stream)
  %launched = icmp eq i32 %status, 0
  br i1 %launched, label %succeeded, label %refused
refused:
  %reported = call ptr @report(ptr %record, i32 %status)
  br label %release
succeeded:
  %kernel_slot = getelementptr ptr, ptr %record, i64 8
  %kernel = load ptr, ptr %kernel_slot
  call void $Py_IncRef(ptr %kernel)
  br label %release
release:
  %result = phi ptr [ null, %find_stream ], [ %reported, %refused ], [ %kernel, %succeeded ]
  call void $Py_DecRef(ptr %entry_object)
  ret ptr %result
stale:
  call void $Py_DecRef(ptr %entry_object)
  br label %miss
miss:
  %missed = call ptr @call_miss(ptr %state, ptr %arguments, i64 %positional, i64 %keywords, ptr %names)
  ret ptr %missed
failed:
  ret ptr null
}
"""

TEMPLATE = _ENCODING + _KEY + _MISS + _LAUNCH
