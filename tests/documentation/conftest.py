"""Services that pages start are as patient as those of other tests."""

from tests.xscl.conftest import patient_answers as patient_answers
from tests.xscl.conftest import patient_followers as patient_followers
