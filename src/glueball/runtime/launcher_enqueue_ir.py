"""From a variant and its raw values to the driver: a part of `launcher_ir`, which says what a record is.

The graph words of a variant, 64 bits each, which `launcher_graph` prepares:

    state, executable graph, its node, home stream, busy, cuGraphExecKernelNodeSetParams, cuGraphLaunch,
    cuStreamIsCapturing, what makes the graph (a Python callable), what the graph was last given, whether it was

What it was given is the grid x, y, z, then a word per kernel argument. A launch with the same needs no update.

The state is the number of launches until the graph is due, 0 where it is there, -1 where there is none and will not be.
An executable graph is ordered with itself, so it serves its home stream only, and it is not safe among threads, so
who launches it sets busy first. An update of it affects later launches only.
"""

from __future__ import annotations

ENQUEUE = """
; The graph words, with busy set, where the launch may go through the graph; null where not; all ones with a Python
; error set.
define internal ptr @acquire_graph(ptr %record, ptr %stream) alwaysinline {
entry:
  %graph_slot = getelementptr ptr, ptr %record, i64 18
  %graph = load ptr, ptr %graph_slot
  %has_no_graph = icmp eq ptr %graph, null
  br i1 %has_no_graph, label %plain, label %look
look:
  %state = load atomic i64, ptr %graph monotonic, align 8
  %is_active = icmp eq i64 %state, 0
  br i1 %is_active, label %compare, label %check_count
check_count:
  %counts = icmp sgt i64 %state, 0
  br i1 %counts, label %count, label %plain
count:
  %left = sub i64 %state, 1
  store i64 %left, ptr %graph
  %is_due = icmp eq i64 %left, 0
  br i1 %is_due, label %make, label %plain
make:
  %made = call i32 @make_graph(ptr %graph, ptr %stream)
  %raised = icmp slt i32 %made, 0
  br i1 %raised, label %failed, label %look_again
look_again:
  %state_after = load atomic i64, ptr %graph monotonic, align 8
  %became_active = icmp eq i64 %state_after, 0
  br i1 %became_active, label %compare, label %plain
compare:
  %home_slot = getelementptr ptr, ptr %graph, i64 3
  %home = load ptr, ptr %home_slot
  %is_home = icmp eq ptr %home, %stream
  br i1 %is_home, label %acquire, label %plain
acquire:
  %busy = getelementptr i64, ptr %graph, i64 4
  %exchange = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic, align 8
  %acquired = extractvalue { i64, i1 } %exchange, 1
  br i1 %acquired, label %held, label %plain
held:
  ret ptr %graph
plain:
  ret ptr null
failed:
  ret ptr inttoptr (i64 -1 to ptr)
}

; Off while Python makes the graph, so that no other thread makes one too.
define internal i32 @make_graph(ptr %graph, ptr %stream) {
entry:
  store i64 -1, ptr %graph
  %home_slot = getelementptr ptr, ptr %graph, i64 3
  store ptr %stream, ptr %home_slot
  %maker_slot = getelementptr ptr, ptr %graph, i64 8
  %maker = load ptr, ptr %maker_slot
  %result = call ptr $PyObject_CallNoArgs(ptr %maker)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %failed, label %good
good:
  call void $Py_DecRef(ptr %result)
  ret i32 0
failed:
  ret i32 -1
}

; Puts a word into its place; 0 where it was there already, else 1.
define internal i64 @exchange(ptr %memory, i64 %place, i64 %word) alwaysinline {
  %slot = getelementptr i64, ptr %memory, i64 %place
  %before = load i64, ptr %slot
  store i64 %word, ptr %slot
  %differs = icmp ne i64 %before, %word
  %result = zext i1 %differs to i64
  ret i64 %result
}

; Launches through the graph and lets it go. The driver's status; -1 where nothing was launched: the stream is being
; captured, or the driver refused the update, which turns the graph off.
define internal i32 @launch_graph(ptr %graph, ptr %function, i32 %x, i32 %y, i32 %z, i32 %block_x, i32 %block_y,
                                  i32 %block_z, i32 %shared, ptr %stream, ptr %pointers, i64 %count) {
entry:
  %parameters = alloca [9 x i64]
  %capture_slot = alloca i32
  store i32 0, ptr %capture_slot
  %busy = getelementptr i64, ptr %graph, i64 4
  %ask_slot = getelementptr ptr, ptr %graph, i64 7
  %ask = load ptr, ptr %ask_slot
  %asked = call i32 %ask(ptr %stream, ptr %capture_slot)
  %capture = load i32, ptr %capture_slot
  %either = or i32 %asked, %capture
  %is_free = icmp eq i32 %either, 0
  br i1 %is_free, label %compare, label %release
compare:
  %executable_slot = getelementptr ptr, ptr %graph, i64 1
  %executable = load ptr, ptr %executable_slot
  %given_slot = getelementptr ptr, ptr %graph, i64 9
  %given = load ptr, ptr %given_slot
  %was_given_slot = getelementptr i64, ptr %graph, i64 10
  %x_word = zext i32 %x to i64
  %y_word = zext i32 %y to i64
  %z_word = zext i32 %z to i64
  %was_given = load i64, ptr %was_given_slot
  %x_differs = call i64 @exchange(ptr %given, i64 0, i64 %x_word)
  %y_differs = call i64 @exchange(ptr %given, i64 1, i64 %y_word)
  %z_differs = call i64 @exchange(ptr %given, i64 2, i64 %z_word)
  %first_given = xor i64 %was_given, 1
  %xy_differ = or i64 %x_differs, %y_differs
  %xyz_differ = or i64 %xy_differ, %z_differs
  %grid_differs = or i64 %xyz_differ, %first_given
  br label %next
next:
  %position = phi i64 [ 0, %compare ], [ %following, %argument ]
  %differs = phi i64 [ %grid_differs, %compare ], [ %differs_after, %argument ]
  %more = icmp slt i64 %position, %count
  br i1 %more, label %argument, label %decide
argument:
  %pointer_slot = getelementptr ptr, ptr %pointers, i64 %position
  %pointer = load ptr, ptr %pointer_slot
  %value = load i64, ptr %pointer
  %place = add i64 %position, 3
  %value_differs = call i64 @exchange(ptr %given, i64 %place, i64 %value)
  %differs_after = or i64 %differs, %value_differs
  %following = add i64 %position, 1
  br label %next
decide:
  %as_before = icmp eq i64 %differs, 0
  br i1 %as_before, label %launch, label %update
update:
  ; CUDA_KERNEL_NODE_PARAMS_v2: func; grid x, y, z; block x, y, z; sharedMemBytes; kernelParams; extra; kern; ctx
  %words = getelementptr i64, ptr %parameters, i64 0
  %x_slot = getelementptr i32, ptr %words, i64 2
  %y_slot = getelementptr i32, ptr %words, i64 3
  %z_slot = getelementptr i32, ptr %words, i64 4
  %block_x_slot = getelementptr i32, ptr %words, i64 5
  %block_y_slot = getelementptr i32, ptr %words, i64 6
  %block_z_slot = getelementptr i32, ptr %words, i64 7
  %shared_slot = getelementptr i64, ptr %words, i64 4
  %shared_word = zext i32 %shared to i64
  %pointers_slot = getelementptr i64, ptr %words, i64 5
  %extra_slot = getelementptr i64, ptr %words, i64 6
  %kern_slot = getelementptr i64, ptr %words, i64 7
  %context_slot = getelementptr i64, ptr %words, i64 8
  store ptr %function, ptr %words
  store i32 %x, ptr %x_slot
  store i32 %y, ptr %y_slot
  store i32 %z, ptr %z_slot
  store i32 %block_x, ptr %block_x_slot
  store i32 %block_y, ptr %block_y_slot
  store i32 %block_z, ptr %block_z_slot
  store i64 %shared_word, ptr %shared_slot
  store ptr %pointers, ptr %pointers_slot
  store i64 0, ptr %extra_slot
  store i64 0, ptr %kern_slot
  store i64 0, ptr %context_slot
  %node_slot = getelementptr ptr, ptr %graph, i64 2
  %node = load ptr, ptr %node_slot
  %set_parameters_slot = getelementptr ptr, ptr %graph, i64 5
  %set_parameters = load ptr, ptr %set_parameters_slot
  %updated = call i32 %set_parameters(ptr %executable, ptr %node, ptr %words)
  %accepted = icmp eq i32 %updated, 0
  br i1 %accepted, label %remember, label %turn_off
remember:
  store i64 1, ptr %was_given_slot
  br label %launch
turn_off:
  store atomic i64 -1, ptr %graph monotonic, align 8
  br label %release
launch:
  %launch_slot = getelementptr ptr, ptr %graph, i64 6
  %launch_function = load ptr, ptr %launch_slot
  %launched = call i32 %launch_function(ptr %executable, ptr %stream)
  br label %release
release:
  %status = phi i32 [ -1, %entry ], [ -1, %turn_off ], [ %launched, %launch ]
  store atomic i64 0, ptr %busy release, align 8
  ret i32 %status
}

; Calls the driver without the interpreter lock: a full queue blocks, and what drains it may need the lock. `graph` is
; held by the caller, or null.
define internal i32 @enqueue(ptr %state, ptr %record, ptr %values, ptr %stream, ptr %graph) alwaysinline {
entry:
  %pointers = alloca [$maximum x ptr]
  %size_slot = getelementptr i64, ptr %record, i64 15
  %size = load i64, ptr %size_slot
  %guards_slot = getelementptr i64, ptr %record, i64 16
  %guards = load i64, ptr %guards_slot
  %count_slot = getelementptr i64, ptr %record, i64 17
  %count = load i64, ptr %count_slot
  %guard_words = mul i64 %guards, 3
  %after_key = add i64 %size, 20
  %start = add i64 %after_key, %guard_words
  %indices = getelementptr i64, ptr %record, i64 %start
  br label %next
next:
  %position = phi i64 [ 0, %entry ], [ %following, %fill ]
  %more = icmp slt i64 %position, %count
  br i1 %more, label %fill, label %go
fill:
  %index_slot = getelementptr i64, ptr %indices, i64 %position
  %number = load i64, ptr %index_slot
  %index = and i64 %number, 4294967295
  %value = getelementptr i64, ptr %values, i64 %index
  %part = lshr i64 %number, 32
  %is_whole = icmp eq i64 %part, 0
  %offset = sub i64 %part, 1
  %read = load ptr, ptr %value
  %read_part = getelementptr i8, ptr %read, i64 %offset
  %passed = select i1 %is_whole, ptr %value, ptr %read_part
  %pointer_slot = getelementptr ptr, ptr %pointers, i64 %position
  store ptr %passed, ptr %pointer_slot
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
  %x_slot = getelementptr i64, ptr %state, i64 6
  %x = load i32, ptr %x_slot
  %y_slot = getelementptr i64, ptr %state, i64 7
  %y = load i32, ptr %y_slot
  %z_slot = getelementptr i64, ptr %state, i64 8
  %z = load i32, ptr %z_slot
  %thread = call ptr $PyEval_SaveThread()
  %has_graph = icmp ne ptr %graph, null
  br i1 %has_graph, label %try_graph, label %plain
try_graph:
  %graph_status = call i32 @launch_graph(ptr %graph, ptr %function, i32 %x, i32 %y, i32 %z, i32 %block_x, i32 %block_y,
                                         i32 %block_z, i32 %shared, ptr %stream, ptr %pointers, i64 %count)
  %declined = icmp slt i32 %graph_status, 0
  br i1 %declined, label %plain, label %done
plain:
  %plain_status = call i32 %launch(ptr %function, i32 %x, i32 %y, i32 %z, i32 %block_x, i32 %block_y, i32 %block_z,
                                   i32 %shared, ptr %stream, ptr %pointers, ptr null)
  br label %done
done:
  %status = phi i32 [ %graph_status, %try_graph ], [ %plain_status, %plain ]
  call void $PyEval_RestoreThread(ptr %thread)
  ret i32 %status
}
"""
