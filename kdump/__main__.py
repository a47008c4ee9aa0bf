"""Lets `python -m kdump` do what `kdump` does."""

from kdump.cli import main

if __name__ == "__main__":
    main()
