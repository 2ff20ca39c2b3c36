"""From a name to batches on the device: sources, order, loader, augmentation."""
