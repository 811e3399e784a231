"""Logging for TensorBoard, in its own event format, written without TensorFlow or the tensorboard package."""

from flambeau.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
