// An attachment's connection to one daemon.
#pragma once

#include <memory>

#include "lease/attachment.h"

namespace tessera::lease {

struct Attachment::Connection {
  Connection(Socket given, std::unique_ptr<SharedBoard> shared, int kick_descriptor, int slot_number)
      : socket(std::move(given)),
        board(std::move(shared)),
        kick(kick_descriptor),
        number(slot_number),
        slot(&(*board)->slots[static_cast<std::size_t>(slot_number)]) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Socket socket;  // closed when the connection is lost; the other members stay
  const std::unique_ptr<SharedBoard> board;
  const int kick;  // eventfd
  const int number;
  BoardSlot* const slot;
};

}  // namespace tessera::lease
