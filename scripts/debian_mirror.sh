# debian_mirror: prints the mirror that this machine's own apt takes Debian from, of any release. To be sourced.
debian_mirror() {
  apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' |
    awk '$1 ~ /\/debian\/?$/ && $2 == "main" { print $1; exit }'
}
