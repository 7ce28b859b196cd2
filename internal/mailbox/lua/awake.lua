-- awake tells which mailboxes a tick will come for. It stands after the function `alive`, writes nothing, and answers in a
-- lane that has lost its state too.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  prefix of the keys of the lane's asynq queue
-- ARGV[2]  how many ticks of a mailbox to look at, the earliest first
-- ARGV[…]  mailboxes, as category:user
--
-- Result   per mailbox 1, or 0 when something waits in it that no tick will come for
local call, lane = redis.call, KEYS[1]
local tasks, limit = ARGV[1], tonumber(ARGV[2])
local clock = call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- served tells whether a set of what waits is empty, or one of its ticks is alive.
local function served(waiting, ticks)
  if call('EXISTS', waiting) == 0 then return true end
  for _, tick in ipairs(call('ZRANGE', ticks, 0, limit - 1)) do
    if alive(tasks, tick, now) then return true end
  end
  return false
end

local result = {}
for i = 3, #ARGV do
  local name = ARGV[i]
  local well = served(lane .. 'w:' .. name, lane .. 't:' .. name) and served(lane .. 'r:' .. name, lane .. 's:' .. name)
  result[#result + 1] = well and 1 or 0
end
return result
