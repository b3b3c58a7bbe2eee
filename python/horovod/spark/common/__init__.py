# SPDX-License-Identifier: Apache-2.0
"""What trainings on Spark have in common."""
