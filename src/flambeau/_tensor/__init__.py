"""Tensor features other than ops: creation and conversion, exchange with other libraries, and text."""
