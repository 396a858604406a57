"""The demo's own workload: a seeded day of three tenants, and the machines that run it."""

from streams.demo.day import END_MS, POOL, plan_of_the_day
from streams.demo.machines import Machines

__all__ = ["END_MS", "POOL", "Machines", "plan_of_the_day"]
