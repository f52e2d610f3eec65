"""Model FLOPs: conventions and their terms, peaks by GPU, and the audit of figures.

The arithmetic is here once; models/jobs/job_mfu.py and `fleetmark mfu audit` evaluate the same terms.
"""
