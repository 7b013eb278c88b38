"""Beam runners: from the name of one to the pipeline of a node, and the jobs on Flink and Dataflow."""
