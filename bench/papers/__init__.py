"""The tables of papers, run again: `python -m bench papers NAME`. One module here declares the tables of one paper."""
