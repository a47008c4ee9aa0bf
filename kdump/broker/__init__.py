"""One broker: what a broker of a version does with the files of a partition."""
