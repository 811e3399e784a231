"""Logging for TensorBoard, in its own event format, written without TensorFlow or the tensorboard package."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
__dir__ = _package_dir(__name__)
