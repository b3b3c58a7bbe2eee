"""What trainings on Spark have in common."""
