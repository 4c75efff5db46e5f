"""A Run from start to its result: attempts at the agent, handoff, Validation, Assessment; sweeps of
Runs."""
