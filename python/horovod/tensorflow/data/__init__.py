# SPDX-License-Identifier: Apache-2.0
"""Runs the tf.data service: processes of a compute job prepare the data of a training job."""
