"""Random changes of training images, for a whole batch at once; each is a function of an image's sample index."""
