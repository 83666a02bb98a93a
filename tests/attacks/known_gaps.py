"""Attacks that still get through, or are turned away for another reason than the right one: expected failures."""

LATE_WORK = "work put off until an output is fetched is on no clock"
SMALL_CALLS = "on a CPU the parent's clock is too coarse for calls this short"
FEW_JUDGED = "too few timed outputs are judged to be sure"
PROC = "the child may still read and write below /proc"

KNOWN_GAPS = {
    "timing_impossible": SMALL_CALLS,
    "timing_patched_stopwatch": SMALL_CALLS,
    "timing_patched_stopwatch_small": SMALL_CALLS,
    "timing_patched_time": SMALL_CALLS,
    "timing_patched_statistics": SMALL_CALLS,
    "timing_rewrites_times": SMALL_CALLS,
    "timing_answers_early": SMALL_CALLS,
    "timing_claims_two_thirds": SMALL_CALLS,
    "state_batch_and_skip": SMALL_CALLS,
    "state_batch_and_skip_small": SMALL_CALLS,
    "timing_lazy_outputs": LATE_WORK,
    "timing_lazy_dispatch": LATE_WORK,
    "state_right_for_140_calls": FEW_JUDGED,
    "state_right_for_92_calls": FEW_JUDGED,
    "state_skips_three_of_five": FEW_JUDGED,
    "state_wrong_while_timed": FEW_JUDGED,
    "timing_slows_the_others": "a child may take the processor from its siblings",
    "timing_slows_the_others_by_affinity": "a child may move its siblings to other cores",
    "tampering_reads_parents_environment": PROC,
    "tampering_limits_parent": PROC,
    "tampering_system_settings": PROC,
    "tampering_parents_settings": PROC,
    "tampering_shared_memory": "shared mappings do not count towards the memory limit",
    "output_three_buffers": "three buffers in turn outlast the calls between two looks",
    "output_two_buffers": "two buffers in turn outlast the calls between two looks about once in a hundred",
    "output_view_of_its_input": "aliasing is probed on the default case only",
    "state_cache_by_version": "fetching an output changes the version counter of every input",
    "state_sorts_its_input_while_timed": "inputs are not compared after timed calls",
    "output_class_named_tensor": "turned away as wrong_shape",
    "timing_lazy_subclass_in_disguise": "turned away as wrong_shape",
    "tampering_error_in_colour": "control characters of an error reach the message",
}
