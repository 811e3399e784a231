"""Importing this module installs the import hook; processes started by multiprocessing do it first."""

from flambeau import compat

compat.install()
