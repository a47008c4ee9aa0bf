"""`verify`: the plan, the work on one partition, and the summary."""
