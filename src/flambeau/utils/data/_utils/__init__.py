"""The parts of DataLoader: collation, fetching, seeding, workers."""
