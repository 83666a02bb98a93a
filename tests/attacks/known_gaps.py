"""Attacks that still get through, or are turned away for another reason than the right one: expected failures."""

SMALL_CALLS = "on a CPU the parent's clock is too coarse for calls this short"
FEW_JUDGED = "too few timed outputs are judged to be sure"

KNOWN_GAPS = {
    "timing_impossible": SMALL_CALLS,
    "timing_patched_time": SMALL_CALLS,
    "timing_patched_statistics": SMALL_CALLS,
    "timing_answers_early": SMALL_CALLS,
    "state_batch_and_skip": SMALL_CALLS,
    "state_batch_and_skip_small": SMALL_CALLS,
    "state_right_for_140_calls": FEW_JUDGED,
    "state_right_for_92_calls": FEW_JUDGED,
    "state_skips_three_of_five": FEW_JUDGED,
    "state_wrong_while_timed": FEW_JUDGED,
    "timing_slows_the_others": "a child may take the processor from its siblings",
    "output_three_buffers": "three buffers in turn outlast the calls between two looks",
    "output_two_buffers": "two buffers in turn outlast the calls between two looks about once in a hundred",
    "output_view_of_its_input": "aliasing is probed on the default case only",
    "state_cache_by_version": "fetching an output changes the version counter of every input",
    "state_sorts_its_input_while_timed": "inputs are not compared after timed calls",
}
