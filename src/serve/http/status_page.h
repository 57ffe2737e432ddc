// A page for people that shows the server at work, and asks for /status/data every second.
#pragma once

#include <string>

namespace tessera::serve {

std::string status_page();

}  // namespace tessera::serve
