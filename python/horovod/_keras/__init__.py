"""What horovod.keras and horovod.tensorflow.keras share. It imports no framework by itself."""
