"""`groups`: what `__consumer_offsets` and `__share_group_state` come to."""
