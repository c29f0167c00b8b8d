"""Departments ask their teams: the actor of a department waits for the answers."""

import time

import sundog


@sundog.remote
def team(number):
    time.sleep(0.08)
    return number


@sundog.remote
class Department:
    def report(self, quarter):
        return sum(sundog.get([team.remote(quarter * 2 + n) for n in range(2)]))  # fault: nested-get


sundog.init(num_cpus=4)
department = Department.remote()
print(sum(sundog.get([department.report.remote(quarter) for quarter in range(8)])))
