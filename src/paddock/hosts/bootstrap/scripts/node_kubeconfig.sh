# shellcheck shell=bash
# The node's own identity. Arguments: PATH USER. Secret: the kubeconfig in base64.
IFS= read -r encoded
put_secret "$1" "$2" "$encoded"
