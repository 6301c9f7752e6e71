"""From an argument to its key words and raw value: the first part of `launcher_ir`, which says what they are."""

from __future__ import annotations

ENCODING = """
; Every encode function writes the two key words and the raw value. It returns 0; 1 where the argument has no key; -1
; with a Python error set.

define internal i32 @encode_object(ptr %object, ptr %words, ptr %value, ptr %references) alwaysinline {
  %address = ptrtoint ptr %object to i64
  %second = getelementptr i64, ptr %words, i64 1
  store i64 %address, ptr %words
  store i64 0, ptr %second
  store i64 0, ptr %value
  %recorded = call i32 @record(ptr %references, ptr %object)
  ret i32 %recorded
}

define internal i32 @record(ptr %references, ptr %object) alwaysinline {
  %absent = icmp eq ptr %references, null
  br i1 %absent, label %skip, label %append
append:
  %status = call i32 $PyList_Append(ptr %references, ptr %object)
  ret i32 %status
skip:
  ret i32 0
}

define internal i32 @encode_integer(ptr %object, i64 %flags, ptr %words, ptr %value, ptr %references) alwaysinline {
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

define internal i32 @encode_float(ptr %object, i64 %flags, ptr %words, ptr %value) alwaysinline {
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

define internal i32 @encode_bool(ptr %object, ptr %words, ptr %value) alwaysinline {
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
  %second_word = call i64 @tensor_word(i64 %index, i64 %device, i64 %pointer, i64 %flags)
  %second = getelementptr i64, ptr %words, i64 1
  store i64 %second_word, ptr %second
  ret i32 0
failed:
  ret i32 -1
}

; Whether a DLTensor has no elements.
define internal i1 @is_empty(ptr %tensor) alwaysinline {
entry:
  %dimensions_slot = getelementptr i32, ptr %tensor, i64 4
  %dimensions = load i32, ptr %dimensions_slot
  %shape_slot = getelementptr ptr, ptr %tensor, i64 3
  %shape = load ptr, ptr %shape_slot
  br label %next
next:
  %axis = phi i32 [ 0, %entry ], [ %following, %check ]
  %more = icmp slt i32 %axis, %dimensions
  br i1 %more, label %check, label %filled
check:
  %extent_slot = getelementptr i64, ptr %shape, i32 %axis
  %extent = load i64, ptr %extent_slot
  %following = add i32 %axis, 1
  %none = icmp eq i64 %extent, 0
  br i1 %none, label %empty, label %next
empty:
  ret i1 true
filled:
  ret i1 false
}

; A tensor whose type has DLPack's exchange API; the stack holds a DLTensor. Elements at a null pointer are no key.
define internal i32 @encode_exchanged(ptr %read, ptr %object, i64 %index, i64 %flags, ptr %words,
                                      ptr %value) alwaysinline {
entry:
  %tensor = alloca [6 x i64]
  %status = call i32 %read(ptr %object, ptr %tensor)
  %succeeded = icmp eq i32 %status, 0
  br i1 %succeeded, label %locate, label %clear
clear:
  call void $PyErr_Clear()
  ret i32 1
locate:
  %data = load i64, ptr %tensor
  %offset_slot = getelementptr i64, ptr %tensor, i64 5
  %offset = load i64, ptr %offset_slot
  %pointer = add i64 %data, %offset
  %nowhere = icmp eq i64 %pointer, 0
  br i1 %nowhere, label %without_memory, label %describe
without_memory:
  %empty = call i1 @is_empty(ptr %tensor)
  br i1 %empty, label %describe, label %no_key
describe:
  store i64 %pointer, ptr %value
  %device_type_slot = getelementptr i32, ptr %tensor, i64 2
  %device_type = load i32, ptr %device_type_slot
  %device_slot = getelementptr i32, ptr %tensor, i64 3
  %device = load i32, ptr %device_slot
  %dtype_slot = getelementptr i32, ptr %tensor, i64 5
  %dtype = load i32, ptr %dtype_slot
  %dtype_word = zext i32 %dtype to i64
  %dtype_shifted = shl i64 %dtype_word, 32
  %device_type_word = zext i32 %device_type to i64
  %first_word = or i64 %dtype_shifted, %device_type_word
  store i64 %first_word, ptr %words
  %device_word = zext i32 %device to i64
  %second_word = call i64 @tensor_word(i64 %index, i64 %device_word, i64 %pointer, i64 %flags)
  %second = getelementptr i64, ptr %words, i64 1
  store i64 %second_word, ptr %second
  ret i32 0
no_key:
  ret i32 1
}

; What a reader, a Python callable, gives: bytes, whose address becomes the value, and an object for the key; or None.
define internal i32 @encode_read(ptr %reader, ptr %object, i64 %index, ptr %words, ptr %value, ptr %references) {
entry:
  %argument = alloca ptr
  store ptr %object, ptr %argument
  %given = call ptr $PyObject_Vectorcall(ptr %reader, ptr %argument, i64 1, ptr null)
  %raised = icmp eq ptr %given, null
  br i1 %raised, label %failed, label %look
look:
  %is_none = icmp eq ptr %given, $none
  br i1 %is_none, label %no_key, label %describe
describe:
  %content = call ptr @first_content(ptr %given)
  %address = ptrtoint ptr %content to i64
  store i64 %address, ptr %value
  %token = call ptr @item(ptr %given, i64 1)
  %token_word = ptrtoint ptr %token to i64
  store i64 %token_word, ptr %words
  %index_shifted = shl i64 %index, 40
  %marked = or i64 %index_shifted, -9223372036854775808
  %second = getelementptr i64, ptr %words, i64 1
  store i64 %marked, ptr %second
  %recorded = call i32 @record(ptr %references, ptr %token)
  call void $Py_DecRef(ptr %given)
  ret i32 %recorded
no_key:
  call void $Py_DecRef(ptr %given)
  ret i32 1
failed:
  ret i32 -1
}

define internal i64 @tensor_word(i64 %index, i64 %device, i64 %pointer, i64 %flags) alwaysinline {
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
  %word = or i64 %with_device, %aligned_word
  ret i64 %word
}

define internal i32 @encode(ptr %types, ptr %object, i64 %flags, ptr %words, ptr %value,
                            ptr %references) alwaysinline {
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
  %tripled = mul i64 %index, 3
  %pair = getelementptr ptr, ptr %types, i64 %tripled
  %candidate_slot = getelementptr ptr, ptr %pair, i64 1
  %candidate = load ptr, ptr %candidate_slot
  %matches = icmp eq ptr %candidate, %type
  br i1 %matches, label %found, label %next
found:
  %reader_slot = getelementptr ptr, ptr %pair, i64 3
  %reader = load ptr, ptr %reader_slot
  %has_no_reader = icmp eq ptr %reader, null
  br i1 %has_no_reader, label %array, label %described
described:
  %told = call i32 @encode_read(ptr %reader, ptr %object, i64 %index, ptr %words, ptr %value, ptr %references)
  ret i32 %told
array:
  %read_slot = getelementptr ptr, ptr %pair, i64 2
  %read = load ptr, ptr %read_slot
  %has_no_api = icmp eq ptr %read, null
  br i1 %has_no_api, label %tensor, label %exchanged
exchanged:
  %exchanged_status = call i32 @encode_exchanged(ptr %read, ptr %object, i64 %index, i64 %flags, ptr %words, ptr %value)
  ret i32 %exchanged_status
tensor:
  %tensor_status = call i32 @encode_tensor(ptr %object, i64 %index, i64 %flags, ptr %words, ptr %value, ptr %references)
  ret i32 %tensor_status
identity:
  %identity_status = call i32 @encode_object(ptr %object, ptr %words, ptr %value, ptr %references)
  ret i32 %identity_status
}
"""
