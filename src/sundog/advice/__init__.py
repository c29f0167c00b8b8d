"""The doctor: why a run was not faster, what mending would give; runs compared, and rehearsed on other machines.

::

    index of a session ──reading──► Run ──simulator──► the measured time (calibration)
                                     ├──findings────► changed Runs ──simulator──► predicted times ──► DoctorReport
                                     ├──comparison (`sundog diff`)
                                     └──rehearsal  (`sundog rehearse`)

`run` has the rows, `reading` makes them of the records, `simulator` plays them, `findings_*` look for faults and change
the run as the mended program would have run, `source` reads the user's own lines, `report` shows it all.
"""
