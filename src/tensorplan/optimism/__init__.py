"""placeholder"""

from tensorplan.optimism.program import Certificate, CertificateError, Program, ProgramError, Solution
from tensorplan.optimism.search import Search, solve

__all__ = ["Certificate", "CertificateError", "Program", "ProgramError", "Search", "Solution", "solve"]
