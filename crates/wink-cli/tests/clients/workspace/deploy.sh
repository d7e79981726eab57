#!/bin/sh
# Production fails, when it has already changed something.
echo "$WINK_ARG_ENVIRONMENT" >deployed.txt
echo "deploying" >report.txt
if [ "$WINK_ARG_ENVIRONMENT" = production ]; then
    echo "production does not answer" >&2
    exit 3
fi
echo "deployed $WINK_ARG_ENVIRONMENT"
