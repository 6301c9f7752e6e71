"""What the language does beside its operations, and the tests that show each: rows of `docs/language.md`.

A test is named `folder/file::function` under `tests/`, without `test_` before the file's name.
"""

from __future__ import annotations

from typing import Final

FEATURES: Final[dict[str, dict[str, str]]] = {
    "Names and types": {
        "every name of `gl` is there; names of other languages say what to use": (
            "language/surface::test_every_name_is_there_or_says_that_it_is_not_yet "
            "language/surface::test_names_of_other_languages_say_what_to_use"
        ),
        "operations outside of a kernel are refused": (
            "language/surface::test_operations_are_documented_and_refuse_to_run_outside_of_kernels "
            "language/surface::test_library_functions_refuse_to_run_outside_of_kernels"
        ),
        "element types (`gl.dtype`, `gl.void`): names, widths, kinds, predicates, limits": (
            "language/types::test_element_types language/types::test_each_predicate_holds_for_one_type "
            "language/types::test_limits_of_integers"
        ),
        "`gl.pointer_type`, constant pointers": (
            "language/types::test_pointer_types frontend/errors::test_store_to_a_constant_pointer "
            "frontend/values::test_pointers"
        ),
        "`gl.distributed_type`, `gl.block_type`, `gl.base_type`": (
            "language/types::test_tile_types language/types::test_tiles_that_cannot_be "
            "language/surface::test_types_are_base_types"
        ),
        "`gl.shared_memory_descriptor`, `gl.shared_memory_descriptor_type`": (
            "language/types::test_types_of_views kernels/shared_memory::test_properties"
        ),
        "`gl.tensor`, `gl.base_value`: attributes, methods, indices": (
            "frontend/values::test_tensor_methods frontend/refusals::test_refusals "
            "frontend/statements::test_two_dimensional_indexing_broadcast_and_permute"
        ),
        "types of literals, `gl.to_tensor`": (
            "language/promotion::test_types_of_literals language/promotion::test_literals_that_do_not_fit "
            "frontend/values::test_creation"
        ),
        "`gl.constexpr` folds as Python does; `gl._unwrap_if_constexpr`": (
            "language/constexpr::test_binary_operators_fold_on_both_sides "
            "language/constexpr::test_unary_operators_fold "
            "language/constexpr::test_wrapping_collapses_and_passes_through"
        ),
        "`gl.tuple`, `gl.tuple_type`, fields of named tuples": (
            "language/constexpr::test_tuples language/constexpr::test_named_tuples_keep_their_fields "
            "frontend/values::test_tuples"
        ),
        "`gl.CachePolicy`": "language/surface::test_cache_policies frontend/values::test_accesses",
        "`gl.PropagateNan`": "kernels/numbers_arithmetic::test_floats",
        "promotion of run-time values and literals": (
            "language/promotion::test_run_time_values "
            "language/promotion::test_literals_adopt_the_type_of_a_tensor_of_their_kind "
            "language/promotion::test_operations_compute_in_the_promoted_type "
            "kernels/numbers_arithmetic::test_promotion"
        ),
    },
    "Layouts": {
        "maps over F2: application, inverse, composition, product, parts, division": (
            "layouts/linear::test_application_is_the_same_one_by_one_and_in_arrays layouts/linear::test_right_inverse "
            "layouts/linear::test_composition layouts/linear_algebra::test_direct_sum "
            "layouts/linear_algebra::test_parts layouts/linear_algebra::test_left_division_undoes_the_direct_sum"
        ),
        "free bits; maps that miss elements are refused": (
            "layouts/linear::test_free_bits_zero_is_one_holder_of_each_element layouts/linear::test_mistakes"
        ),
        "maps of layouts larger and smaller than the tensor, of CTAs": (
            "layouts/worked_examples::test_map_of_a_layout layouts/linear_algebra::test_fitting_to_a_shape"
        ),
        "`gl.BlockedLayout`, `gl.SliceLayout`, `gl.DistributedLinearLayout`: maps and mistakes": (
            "layouts/distributed::test_blocked_layouts_tile_the_tensor "
            "layouts/distributed::test_a_slice_holds_what_its_parent_holds "
            "layouts/distributed::test_the_explicit_spelling_has_the_same_map layouts/distributed::test_mistakes"
        ),
        "`gl.NVMMADistributedLayout`, `gl.DotOperandLayout`: maps and mistakes": (
            "layouts/matrix_layouts::test_map_of_a_fragment layouts/matrix_layouts::test_operands_of_every_width "
            "layouts/matrix_layouts::test_operands_know_their_parent layouts/matrix_layouts::test_mistakes"
        ),
        "`gl.SwizzledSharedLayout`, `gl.NVMMASharedLayout`: maps, defaults and mistakes": (
            "layouts/shared_layouts::test_map_of_a_layout layouts/shared_layouts::test_swizzles_follow_their_formula "
            "layouts/shared_layouts::test_bulk_tiles_follow_their_formula "
            "layouts/shared_layouts::test_default_swizzles layouts/shared_layouts::test_mistakes"
        ),
        "`gl.PaddedSharedLayout`, `gl.SharedLinearLayout`: maps, sizes and mistakes": (
            "layouts/shared_layouts::test_padding layouts/shared_layouts::test_padding_of_two_intervals "
            "layouts/shared_layouts::test_padded_sizes layouts/shared_layouts::test_explicit_layouts"
        ),
        "`gl.AutoLayout`, `gl.CoalescedLayout` as objects": (
            "layouts/matrix_layouts::test_placeholders_have_nothing_to_show"
        ),
        "equality, hashes, names, lists and tuples": (
            "layouts/distributed::test_spellings_compare_equal layouts/shared_layouts::test_spellings_compare_equal "
            "layouts/matrix_layouts::test_spellings_compare_equal "
            "language/types::test_fields_of_layouts_are_lists_and_tuples_alike "
            "layouts/distributed::test_types_and_names"
        ),
        "layouts of results of shape operations, reductions, scans": (
            "kernels/shapes::test_result_layouts layouts/free::test_permuting layouts/free::test_reshaping "
            "layouts/free::test_joining_and_splitting layouts/free::test_unpacking_pairs "
            "layouts/free::test_inserting_a_dimension layouts/free::test_broadcasting"
        ),
        "number of warps, lanes and CTAs checked for each tile": (
            "frontend/errors::test_wrong_warp_count_is_told_at_the_line frontend/refusals::test_refusals"
        ),
        "trivial conversions asked for": (
            "frontend/statements::test_layouts_with_one_map_mix_and_the_first_spelling_stays "
            "frontend/refusals::test_refusals"
        ),
        "conversions between any two layouts": (
            "kernels/conversions::test_a_thousand_random_pairs "
            "layouts/conversion::test_every_plan_puts_every_element_in_its_place"
        ),
        "`gl.bank_conflicts`, `gl.to_linear_layout`": (
            "kernels/shared_memory::test_bank_conflicts layouts/banks::test_measured_conflicts "
            "kernels/shared_memory::test_layouts_of_views"
        ),
    },
    "Layouts that follow": {
        "tiles made without a layout, shapes of them": "frontend/auto_layouts::test_shape_operations",
        "the layout of the other operand": "frontend/auto_layouts::test_an_operand_takes_the_layout_of_the_other",
        "forward and back, through loops, branches and calls": (
            "frontend/auto_layouts::test_a_layout_flows_back_through_loops_and_reductions"
        ),
        "two layouts for one tile, or none, are errors": (
            "frontend/auto_layouts::test_errors frontend/refusals::test_refusals"
        ),
        "coalesced layouts": (
            "frontend/auto_layouts::test_coalesced_lines frontend/auto_layouts::test_coalesced_squares "
            "frontend/auto_layouts::test_coalesced_copies"
        ),
    },
    "Memory and synchronisation": {
        "a store by one holder, an atomic once, for each element": (
            "kernels/atomics::test_each_element_once_in_random_layouts "
            "kernels/atomics::test_scalars_once_for_each_program "
            "layouts/memory::test_a_store_is_issued_by_one_holder_of_each_element"
        ),
        "orderings and scopes of atomics": (
            "kernels/atomics::test_every_word_makes_code kernels/atomics::test_programs_wait_for_one_another"
        ),
        "promises about values; false ones are found": (
            "kernels/numbers_hints::test_promised_runs_widen_accesses "
            "kernels/numbers_hints::test_false_promises_are_reported"
        ),
        "dead buffers share space, `_keep_alive`": "kernels/shared_memory::test_dead_buffers_share_space",
        "views of views read and write what NumPy does": (
            "kernels/shared_memory::test_a_view_of_views_reads_what_numpy_reads "
            "kernels/shared_memory::test_a_view_of_views_writes_where_numpy_writes"
        ),
        "several buffers by a run-time index": "kernels/shared_memory::test_buffers_by_a_runtime_index",
        "views through calls, loops, tuples, records": (
            "kernels/shared_memory::test_views_carried_by_a_loop "
            "kernels/shared_memory::test_views_through_calls_tuples_and_branches"
        ),
        "barriers where a hazard needs one, and nowhere else": (
            "kernels/shared_barriers::test_number_of_barriers "
            "kernels/shared_barriers::test_a_missing_barrier_is_a_race "
            "kernels/shared_barriers::test_with_all_barriers_there_is_no_race"
        ),
        "mistakes with views": (
            "kernels/shared_memory::test_errors_of_views kernels/shared_memory::test_errors_of_allocations"
        ),
    },
    "Statements and expressions": {
        "where functions come from; signatures that are refused": (
            "language/function::test_what_cannot_be_compiled_is_refused "
            "language/function::test_functions_made_by_exec_work_where_their_text_is_registered"
        ),
        "assignment, unpacking, augmented assignment, walrus": (
            "frontend/values::test_assignments frontend/refusals::test_refusals"
        ),
        "annotations keep constants and force nothing": (
            "frontend/values::test_annotations_never_force "
            "frontend/statements::test_literals_become_run_time_values_unless_annotated"
        ),
        "comprehensions, f-strings, chains, `is`, `and`, `or`, `not`": (
            "frontend/values::test_tuples frontend/values::test_logic_and_choices "
            "frontend/statements::test_comparison_chains_and_logic frontend/statements::test_constants_short_circuit"
        ),
        "Python's functions, the `math` module": (
            "frontend/values::test_python_functions frontend/statements::test_python_functions_run_on_constants"
        ),
        "division truncates at run time, floors at compile time": (
            "frontend/values::test_run_time_division_truncates_and_constants_floor"
        ),
        "syntax that there is not": "frontend/refusals::test_refusals",
        "variables from outside; changed ones are found at a launch": (
            "language/function::test_dependencies_show_changed_values runtime/jit::test_changed_global_is_noticed"
        ),
    },
    "Functions": {
        "calls, defaults, keywords, `*arguments`, functions as values": (
            "frontend/values::test_calls_and_returns frontend/statements::test_functions_are_values "
            "frontend/statements::test_calls_take_defaults_keywords_and_star"
        ),
        "early returns and what they unify to": (
            "frontend/values::test_calls_and_returns frontend/control_flow::test_returns_in_nested_conditions "
            "frontend/control_flow::test_returned_tuples_and_constants_unify "
            "frontend/errors::test_returns_of_different_types"
        ),
        "`constexpr_function` on the host, in kernels, as a method": (
            "language/function::test_compile_time_functions_run_on_the_host frontend/values::test_records"
        ),
        "`noinline`, `must_use_result`, recursion": (
            "frontend/aggregates::test_noinline_takes_scalars frontend/aggregates::test_a_result_that_must_be_used "
            "frontend/errors::test_recursion_is_refused"
        ),
    },
    "Records": {
        "constructors, defaults, bases, methods, makers, operators": (
            "frontend/values::test_records frontend/aggregates::test_a_record_through_calls_loops_and_operators"
        ),
        "fields are checked and do not change; `gl.aggregate_replace`": (
            "frontend/aggregates::test_records_do_not_change "
            "frontend/aggregates::test_wrong_arguments_of_a_record frontend/aggregates::test_wrong_uses_of_records"
        ),
        "carried by loops, merged by branches": (
            "frontend/values::test_records frontend/aggregates::test_a_record_is_merged_by_a_branch"
        ),
    },
    "Control flow": {
        "`if` on constants and run-time values; names that merge": (
            "frontend/values::test_branches_merge_names "
            "frontend/control_flow::test_constant_condition_compiles_one_branch "
            "frontend/control_flow::test_run_time_condition_merges_names"
        ),
        "the ternary": "frontend/values::test_logic_and_choices",
        "`for` over `range` of any integers, negative steps; `gl.static_range`; `while`": (
            "frontend/values::test_loops frontend/control_flow::test_negative_steps_nested_loops_and_wide_bounds "
            "frontend/control_flow::test_static_range_unrolls frontend/control_flow::test_while_loops"
        ),
        "what loops carry keeps its type": (
            "frontend/control_flow::test_loop_carries_what_changes_and_nothing_else frontend/refusals::test_refusals"
        ),
    },
    "Errors and diagnostics": {
        "each wrong program has its message": (
            "frontend/refusals::test_refusals frontend/errors::test_wrong_kernel errors/messages::test_message"
        ),
        "one error for each call, the innermost line first; pickling": (
            "frontend/refusals::test_one_error_for_each_call "
            "frontend/errors::test_error_in_a_helper_shows_the_whole_chain"
        ),
        "`gl.static_print`, `gl.static_assert`": (
            "frontend/statements::test_static_print_writes_values_and_types frontend/refusals::test_refusals"
        ),
        "`gl.device_print`, `gl.device_assert`, `gl.expect_zero`": (
            "kernels/diagnostics::test_lines kernels/diagnostics::test_assertions"
        ),
        "assembly of the author's own": (
            "kernels/assembly::test_elementwise kernels/assembly::test_all_registers_of_a_thread "
            "kernels/assembly::test_errors"
        ),
        "the functions of `gl.extra.libdevice`": (
            "kernels/numbers_functions::test_own_functions "
            "kernels/numbers_functions::test_a_function_that_is_not_there_is_named"
        ),
        "sums in any layout are equal on every executor": (
            "kernels/reductions::test_float_sums_in_random_layouts_are_those_of_the_reference "
            "kernels/scans::test_running_sums_in_random_layouts_are_those_of_the_reference"
        ),
        "random kernels are equal on every executor": "kernels/random_kernels::test_simulator_and_reference_agree",
    },
}
