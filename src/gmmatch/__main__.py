"""`python -m gmmatch` is the command `gmmatch`."""

from .cli import main

main()
