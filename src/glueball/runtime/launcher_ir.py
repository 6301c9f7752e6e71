"""The native launcher's code, as LLVM IR text.

One body serves every kernel: it loops over the arguments, so nothing here depends on a signature. `$name` stands for
an address that is known when the text is filled in: a function of CPython's C API (`$Py...`), or one of the objects
that `launcher_native` lists (types, interned attribute names). Addresses as constants need no symbol resolution.

Memory that Python prepares and this code reads, all in 64-bit words:

    state       variants (dict), miss, grid (tuple), latest, tensor types, parameters, grid x, y, z
    latest      the entry hit last, or null
    tensor types  count, then per type: the type, its exchange API's reading function or null, its reader or null
    parameters  count, then per parameter: name, flags
    record      launch, function, block x, y, z, shared bytes, context function, context, kernel, stream function,
                stream device type, stream device, stream callable or null, stream argument or else the stream,
                launch_failed, key word count, guard count, argument count, graph words (`launcher_enqueue_ir`) or
                null, epoch; then the key; per guard: dict, name, value; per kernel argument the index of the call's
                argument, and in the upper 32 bits, for a part of a reader's bytes, its offset plus one
    repetition  current, miss, four unused, grid x, y, z, values
    current     the entry that is launched, or null

A record is stale where its epoch is not the one that now stands in `knob_groups.LAUNCH_EPOCH`.

The key of a call is `positional | keywords << 32`, then per argument two words, before them the name of a keyword
argument. The two words are

    exchanged   device type | dtype << 32    as a tensor's; dtype as DLPack's code, bits, lanes
    tensor      dtype (address)    1 << 63 | type index << 40 | device << 1 (32 bits) | aligned
    read        object (address)   1 << 63 | type index << 40
    int         width tag 1 to 3   is one | divisible by 16 << 1
    float       tag 4              0
    bool        tag 5              0
    constexpr   tag + 16           the value, for int and float
    other       object (address)   0

Where a parameter's flags leave it open which row applies, bit 63, the tag or the address tells, since tags are smaller
than any address. So two different calls never share a key while the objects whose addresses are in it live; the stored
variant keeps them alive.
"""

from __future__ import annotations

from glueball.runtime.launcher_encoding_ir import ENCODING
from glueball.runtime.launcher_enqueue_ir import ENQUEUE

MAXIMUM_ARGUMENTS = 128

_KEY = """
; An item of a tuple, and the content of a bytes object, in place.
define internal ptr @item(ptr %tuple, i64 %index) alwaysinline {
  %items = getelementptr i8, ptr %tuple, i64 $tuple_items
  %slot = getelementptr ptr, ptr %items, i64 %index
  %object = load ptr, ptr %slot
  ret ptr %object
}

define internal ptr @first_content(ptr %tuple) alwaysinline {
  %bytes = call ptr @item(ptr %tuple, i64 0)
  %content = getelementptr i8, ptr %bytes, i64 $bytes_content
  ret ptr %content
}

; A keyword that names no parameter is a launch option, hence constexpr.
define internal i64 @flags_of_name(ptr %parameters, ptr %name) alwaysinline {
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

define internal i64 @flags_at(ptr %parameters, i64 %index) alwaysinline {
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
                                 ptr %values, ptr %references) alwaysinline {
entry:
  %types_slot = getelementptr ptr, ptr %state, i64 4
  %types = load ptr, ptr %types_slot
  %parameters_slot = getelementptr ptr, ptr %state, i64 5
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
  %name = call ptr @item(ptr %names, i64 %name_index)
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

define internal i64 @count_names(ptr %names) alwaysinline {
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
  %state = call ptr @first_content(ptr %self)
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
  %name = call ptr @item(ptr %names, i64 %name_index)
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
define internal i1 @guards_hold(ptr %record) alwaysinline {
entry:
  %count_slot = getelementptr i64, ptr %record, i64 16
  %count = load i64, ptr %count_slot
  %size_slot = getelementptr i64, ptr %record, i64 15
  %size = load i64, ptr %size_slot
  %after_key = add i64 %size, 20
  %first = getelementptr ptr, ptr %record, i64 %after_key
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

define internal i1 @is_current(ptr %record) alwaysinline {
  %epoch_slot = getelementptr i64, ptr %record, i64 19
  %epoch = load i64, ptr %epoch_slot
  %now = load i64, ptr $epoch
  %same = icmp eq i64 %epoch, %now
  ret i1 %same
}

define internal i1 @context_holds(ptr %record) alwaysinline {
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

; Writes the stream and returns 0; 1 where the exchange API does not tell it; -1 with a Python error set.
define internal i32 @read_stream(ptr %record, ptr %stream_slot) alwaysinline {
entry:
  store ptr null, ptr %stream_slot
  %function_slot = getelementptr ptr, ptr %record, i64 9
  %function = load ptr, ptr %function_slot
  %has_no_api = icmp eq ptr %function, null
  br i1 %has_no_api, label %without_api, label %exchange
exchange:
  %type_slot = getelementptr i64, ptr %record, i64 10
  %type = load i32, ptr %type_slot
  %device_slot = getelementptr i64, ptr %record, i64 11
  %device = load i32, ptr %device_slot
  %status = call i32 %function(i32 %type, i32 %device, ptr %stream_slot)
  %told = icmp eq i32 %status, 0
  br i1 %told, label %good, label %clear
clear:
  call void $PyErr_Clear()
  ret i32 1
without_api:
  %callable_slot = getelementptr ptr, ptr %record, i64 12
  %callable = load ptr, ptr %callable_slot
  %argument_slot = getelementptr ptr, ptr %record, i64 13
  %is_fixed = icmp eq ptr %callable, null
  br i1 %is_fixed, label %fixed, label %ask
fixed:
  %stream = load ptr, ptr %argument_slot
  store ptr %stream, ptr %stream_slot
  br label %good
ask:
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
  ret i32 0
bad:
  ret i32 -1
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
  %handler_slot = getelementptr ptr, ptr %record, i64 14
  %handler = load ptr, ptr %handler_slot
  %result = call ptr $PyObject_Vectorcall(ptr %handler, ptr %call, i64 1, ptr null)
  call void $Py_DecRef(ptr %number)
  ret ptr %result
failed:
  ret ptr null
}

; Whether an entry (or null) is of a key.
define internal i1 @has_key(ptr %entry_found, ptr %words, i64 %size) alwaysinline {
entry:
  %absent = icmp eq ptr %entry_found, null
  br i1 %absent, label %different, label %measure
measure:
  %record = call ptr @first_content(ptr %entry_found)
  %size_slot = getelementptr i64, ptr %record, i64 15
  %its_size = load i64, ptr %size_slot
  %key = getelementptr i64, ptr %record, i64 20
  %as_long = icmp eq i64 %its_size, %size
  br i1 %as_long, label %next, label %different
next:
  %index = phi i64 [ 0, %measure ], [ %following, %compare ]
  %more = icmp slt i64 %index, %size
  br i1 %more, label %compare, label %equal
compare:
  %word_slot = getelementptr i64, ptr %words, i64 %index
  %word = load i64, ptr %word_slot
  %its_word_slot = getelementptr i64, ptr %key, i64 %index
  %its_word = load i64, ptr %its_word_slot
  %following = add i64 %index, 1
  %same = icmp eq i64 %word, %its_word
  br i1 %same, label %next, label %different
equal:
  ret i1 true
different:
  ret i1 false
}

define internal i1 @grid_is_empty(ptr %state) alwaysinline {
  %x_slot = getelementptr i64, ptr %state, i64 6
  %x = load i64, ptr %x_slot
  %y_slot = getelementptr i64, ptr %state, i64 7
  %y = load i64, ptr %y_slot
  %z_slot = getelementptr i64, ptr %state, i64 8
  %z = load i64, ptr %z_slot
  %no_x = icmp eq i64 %x, 0
  %no_y = icmp eq i64 %y, 0
  %no_z = icmp eq i64 %z, 0
  %no_xy = or i1 %no_x, %no_y
  %empty = or i1 %no_xy, %no_z
  ret i1 %empty
}

; Launches what an entry holds and returns its kernel; null with a Python error set; all ones where it is stale.
define internal ptr @run(ptr %state, ptr %entry_found, ptr %values) alwaysinline {
entry:
  %stream_slot = alloca ptr
  ; The entry may leave the table while Python code runs below; this reference keeps all it holds.
  call void $Py_IncRef(ptr %entry_found)
  %record = call ptr @first_content(ptr %entry_found)
  %current = call i1 @is_current(ptr %record)
  br i1 %current, label %check_guards, label %release
check_guards:
  %unchanged = call i1 @guards_hold(ptr %record)
  br i1 %unchanged, label %check_grid, label %release
check_grid:
  %empty = call i1 @grid_is_empty(ptr %state)
  br i1 %empty, label %succeeded, label %check_context
check_context:
  %in_context = call i1 @context_holds(ptr %record)
  br i1 %in_context, label %find_stream, label %release
find_stream:
  %found = call i32 @read_stream(ptr %record, ptr %stream_slot)
  switch i32 %found, label %failed [ i32 0, label %enqueue i32 1, label %release ]
enqueue:
  %stream = load ptr, ptr %stream_slot
  %graph = call ptr @acquire_graph(ptr %record, ptr %stream)
  %making_raised = icmp eq ptr %graph, inttoptr (i64 -1 to ptr)
  br i1 %making_raised, label %failed, label %go
go:
  %status = call i32 @enqueue(ptr %state, ptr %record, ptr %values, ptr %stream, ptr %graph)
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
failed:
  br label %release
release:
  %result = phi ptr [ inttoptr (i64 -1 to ptr), %entry ], [ inttoptr (i64 -1 to ptr), %check_guards ],
                    [ inttoptr (i64 -1 to ptr), %check_context ], [ inttoptr (i64 -1 to ptr), %find_stream ],
                    [ %reported, %refused ], [ %kernel, %succeeded ], [ null, %failed ]
  call void $Py_DecRef(ptr %entry_found)
  ret ptr %result
}

define ptr @launch(ptr %self, ptr %arguments, i64 %positional, ptr %names) {
entry:
  %words = alloca [$words x i64]
  %values = alloca [$maximum x i64]
  %state = call ptr @first_content(ptr %self)
  %keywords = call i64 @count_names(ptr %names)
  %size = call i64 @compute_key(ptr %state, ptr %arguments, i64 %positional, i64 %keywords, ptr %names, ptr %words,
                                ptr %values, ptr null)
  switch i64 %size, label %compare [ i64 -1, label %failed i64 0, label %miss ]
compare:
  %latest_slot = getelementptr ptr, ptr %state, i64 3
  %latest = load ptr, ptr %latest_slot
  %latest_entry = load ptr, ptr %latest
  %repeated = call i1 @has_key(ptr %latest_entry, ptr %words, i64 %size)
  br i1 %repeated, label %hit, label %look_up
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
  br i1 %unknown, label %check_error, label %become_latest
become_latest:
  store ptr %entry_object, ptr %latest
  br label %hit
check_error:
  %error = call ptr $PyErr_Occurred()
  %is_error = icmp ne ptr %error, null
  br i1 %is_error, label %failed, label %miss
hit:
  %entry_found = phi ptr [ %latest_entry, %compare ], [ %entry_object, %become_latest ]
  %result = call ptr @run(ptr %state, ptr %entry_found, ptr %values)
  %stale = icmp eq ptr %result, inttoptr (i64 -1 to ptr)
  br i1 %stale, label %miss, label %done
done:
  ret ptr %result
miss:
  %missed = call ptr @call_miss(ptr %state, ptr %arguments, i64 %positional, i64 %keywords, ptr %names)
  ret ptr %missed
failed:
  ret ptr null
}

; The same launch again: the values were read when it was prepared.
define ptr @repeat(ptr %self, ptr %nothing) {
entry:
  %state = call ptr @first_content(ptr %self)
  %current = load ptr, ptr %state
  %entry_found = load ptr, ptr %current
  %absent = icmp eq ptr %entry_found, null
  br i1 %absent, label %miss, label %go
go:
  %values_slot = getelementptr ptr, ptr %state, i64 9
  %values = load ptr, ptr %values_slot
  %result = call ptr @run(ptr %state, ptr %entry_found, ptr %values)
  %stale = icmp eq ptr %result, inttoptr (i64 -1 to ptr)
  br i1 %stale, label %miss, label %done
done:
  ret ptr %result
miss:
  %miss_slot = getelementptr ptr, ptr %state, i64 1
  %miss_function = load ptr, ptr %miss_slot
  %missed = call ptr $PyObject_CallNoArgs(ptr %miss_function)
  ret ptr %missed
}
"""

TEMPLATE = ENCODING + _KEY + _MISS + ENQUEUE + _LAUNCH
