"""The library: what `import kdump` gives. `docs/library.md` has examples that a test runs."""
