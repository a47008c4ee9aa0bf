"""`find-offset` and `find-time`: the plan, the step and the rows around the lookups."""
