"""The kinds of data that can be opened, one file per family; `OWN` in `open.py` lists them."""
