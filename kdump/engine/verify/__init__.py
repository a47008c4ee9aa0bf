"""`verify`: the plan, the work on one partition, and what all of it comes to."""
