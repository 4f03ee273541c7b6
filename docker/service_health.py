"""The API's health check: exit status 0 while it answers. A refusal (of this Host, say) is an answer too."""

import os
import sys
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

TIMEOUT_S = 4.0

try:
    urlopen(f"http://127.0.0.1:{os.environ['MATMUL_PORT']}/livez", timeout=TIMEOUT_S).close()
except HTTPError as error:
    sys.exit(f"the API answers {error.code}" if error.code >= 500 else 0)
except (URLError, TimeoutError) as error:
    sys.exit(f"the API does not answer: {error}")
