"""What Transform fits from all records of the train split: exact, mergeable, and kept per span.

    preprocessing_fn ─► trace ─┬─ first: the values to analyze ─► accumulators per shard ─► merged per span, kept
                               └─ then: the merged results as constants and vocabulary files ─► the Transform graph

An accumulator counts and adds integers, so its result is the same in any order, and that of spans merged is that of all
records read at once.
"""
