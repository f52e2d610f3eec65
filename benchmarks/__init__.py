"""Speed against peers and physical limits, measured in one run, as ratios.

`python -m fleetmark.benchmarks [NAME...] [--scale X] [--json] [--write]` measures every workload, or
those named. A workload is a `Workload` (workload.py) in a file of this folder; there is no list to
edit. A file with one reads:

    WORKLOAD = Workload(
        name="s3_access",                    # what NAME on the command line says
        doc="2 M access lines, text file to typed Parquet",
        unit="lines",                        # what is counted
        prepare=write_input,                 # (folder, scale) -> path; not measured, repeatable
        run=to_parquet,                      # (path) -> units done; measured, output beside the input
        required=0.8, aim=1.2,               # multiples of REF; None where there is none
        peak_limit_bytes=1 << 30,            # memory it may take; None where there is no limit
    )

`load` turns the path into what `run` gets before the clock starts; the default hands on the path.

A workload runs in fresh processes, `PAIRS` times, each directly after one of the reference
(reference.py), so that both see the same machine. Its figure is the median of the ratios

    (units / CPU second of the workload) / (lines / CPU second of the reference)

CPU seconds are user + system of the process, all its threads and its children. Imports at the head
of a workload's file happen before the clock starts; those of a child process count. Peak memory is
the largest of the process and its children, without the process that measures.
"""
