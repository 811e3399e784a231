"""A loader that copies the next batch in a stream of its own while the present one is computed with."""

import torch


class Prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.mean = torch.tensor([120.0, 110.0, 100.0]).cuda().view(1, 3, 1, 1)
        self.preload()

    def preload(self):
        try:
            self.images, self.labels = next(self.loader)
        except StopIteration:
            self.images = self.labels = None
            return
        with torch.cuda.stream(self.stream):
            self.images = self.images.cuda(non_blocking=True).float().sub_(self.mean)
            self.labels = self.labels.cuda(non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        images, labels = self.images, self.labels
        if images is not None:
            images.record_stream(torch.cuda.current_stream())
            labels.record_stream(torch.cuda.current_stream())
        self.preload()
        return images, labels


batches = [(torch.full((4, 3, 8, 8), 100 + i, dtype=torch.uint8).pin_memory(), torch.full((4,), i)) for i in range(5)]
prefetcher = Prefetcher(batches)
images, labels = prefetcher.next()
seen = 0
while images is not None:
    expected = float(100 + seen) - prefetcher.mean
    assert images.is_cuda and torch.equal(images, expected.expand(4, 3, 8, 8)) and labels.tolist() == [seen] * 4
    seen += 1
    images, labels = prefetcher.next()
assert seen == 5
print("done")
