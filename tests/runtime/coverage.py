"""What the runtime promises, and the tests that hold it to that: `file::test`, from the folder of this file."""

from __future__ import annotations

COVERAGE: dict[str, tuple[str, ...]] = {
    "options of the decorator": (
        "test_jit.py::test_repr_names_the_kernel",
        "test_jit.py::test_decorator_refuses_what_it_cannot_do",
        "test_hooks.py::test_launch_metadata_is_asked_for_only_when_a_hook_reads_it",
        "test_options.py::test_debug_comes_from_the_launch_then_the_function_then_the_knob",
        "test_processes.py::test_the_text_of_a_function_can_be_changed",
    ),
    "forms of a grid, and what a launch gives": (
        "test_jit.py::test_grids",
        "test_jit.py::test_bad_grids",
        "test_jit.py::test_empty_grid_runs_nothing_but_still_checks",
        "test_processes.py::test_a_grid_of_other_numbers_is_refused_after_equal_integers",
    ),
    "keywords of a launch": (
        "test_jit.py::test_arguments_bind_as_pythons",
        "test_options.py::test_unknown_options_name_the_known",
        "test_options.py::test_where_a_kernel_runs_is_no_option",
    ),
    "warm-up, stand-ins for arrays": (
        "test_jit.py::test_warmup_compiles_and_runs_nothing",
        "test_stand_ins.py::test_warmup_takes_stand_ins_for_arrays",
        "test_stand_ins.py::test_warmup_takes_dtypes_of_torch",
        "test_hooks.py::test_a_specialization_travels_as_text",
    ),
    "how arguments are specialised": (
        "test_specialization.py::test_numbers",
        "test_specialization.py::test_alignment_of_arrays",
        "test_specialization.py::test_keys_tell_apart_what_compiles_differently",
        "test_jit.py::test_kernels_are_compiled_once_per_specialisation",
        "test_stand_ins.py::test_numpy_scalars_are_numbers",
    ),
    "annotations of parameters": ("test_specialization.py::test_annotations",),
    "parameters that are not specialised": ("test_specialization.py::test_do_not_specialize",),
    "tuples, None and constants as arguments": (
        "test_specialization.py::test_tuples",
        "test_compile.py::test_tuples_in_a_signature",
    ),
    "arrays read as of another dtype": (
        "test_stand_ins.py::test_bytes_read_as_float8",
        "test_stand_ins.py::test_wrapped_torch_tensors",
        "test_stand_ins.py::test_reinterpreting_back_gives_the_array",
    ),
    "warps, CTAs, registers, debugging": (
        "test_jit.py::test_options",
        "test_options.py::test_maxnreg_reaches_the_assembler",
        "test_options.py::test_waves_per_eu_reaches_amd_code_only",
        "test_options.py::test_overflow_is_checked_with_debug_unless_told_otherwise",
        "test_options.py::test_launches_with_attributes",
        "test_options.py::test_options_without_a_counterpart",
        "test_options.py::test_instrumentation_is_what_the_simulator_does_anyway",
    ),
    "what is known of a compiled kernel": (
        "test_compile.py::test_what_is_known_of_a_kernel",
        "test_jit.py::test_compile_only_for_every_target",
        "test_hooks.py::test_loading_hooks",
        "test_prepared.py::test_a_compiled_kernel_is_launched_natively",
        "test_prepared.py::test_a_prepared_launch_repeats_itself",
    ),
    "resources that run out": (
        "test_executors.py::test_registers_that_leave_no_room",
        "test_hooks.py::test_a_refused_kernel_is_refused_again_without_loading_it",
    ),
    "compilation without a device": (
        "test_compile.py::test_a_source_is_compiled_for_a_target",
        "test_compile.py::test_facts_constants_and_positions",
        "test_compile.py::test_targets_that_are_none",
    ),
    "kernels kept in memory": (
        "test_jit.py::test_kernels_are_compiled_once_per_specialisation",
        "test_processes.py::test_the_device_of_the_arguments_decides",
    ),
    "compilation in the background": (
        "test_compile.py::test_kernels_compile_in_the_background",
        "test_compile.py::test_errors_come_at_the_end_of_the_block",
    ),
    "hooks of launches, loading and compilation": (
        "test_hooks.py::test_launch_hooks_surround_a_launch",
        "test_hooks.py::test_launches_on_a_device_call_hooks_that_were_added_later",
        "test_hooks.py::test_cache_hook_may_forbid_a_kernel",
        "test_hooks.py::test_post_compile_hook_comes_after_the_kernel",
        "test_hooks.py::test_listener_is_told_of_each_compilation",
        "test_hooks.py::test_stages_hook_sees_stages_and_changes_keys",
        "test_hooks.py::test_pre_run_hooks_get_the_arguments",
    ),
    "settings as attributes": (
        "test_knobs.py::test_a_setting_is_its_variable",
        "test_knobs.py::test_a_scope_puts_everything_back",
        "test_knobs.py::test_what_changes_the_meaning_of_launches_counts_as_an_epoch",
        "test_options.py::test_changed_debug_holds_for_launches_seen_before",
    ),
    "environment variables": (
        "test_knobs.py::test_other_programs_variables_are_read_where_ours_are_not_set",
        "test_executors.py::test_knobs_override",
        "test_jit.py::test_dump_writes_every_stage",
        "test_options.py::test_line_information_can_be_left_out",
    ),
    "allocators": ("test_stand_ins.py::test_scratch_memory_comes_from_the_allocator",),
    "classes of errors": ("test_coverage.py::test_errors_by_the_names_that_programs_catch",),
    "threads, processes and places of functions": (
        "test_processes.py::test_threads_launch_and_compile_one_function",
        "test_processes.py::test_no_gpu_is_said_once",
        "test_processes.py::test_a_forked_child_has_no_gpu",
        "test_processes.py::test_a_fork_waits_for_compilation",
        "test_processes.py::test_a_spawned_process_gets_kernels_by_name",
        "test_processes.py::test_functions_made_by_exec",
        "test_processes.py::test_functions_in_a_zip",
        "test_processes.py::test_functions_typed_into_an_interpreter",
        "test_processes.py::test_a_module_that_is_edited_and_reloaded",
        "test_leaks.py::test_launches_leave_no_memory_behind",
        "test_leaks.py::test_compilations_leave_no_memory_behind",
    ),
}
