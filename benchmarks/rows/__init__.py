"""Rows and tasks of the scripts in the folder above."""
