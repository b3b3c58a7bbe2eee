"""For functions that train with TensorFlow."""
