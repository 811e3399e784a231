"""What tensors can do besides ops: making and converting them, exchange with other libraries, and text."""
