-- awake reports which users have a wake-up that comes in time. It writes nothing, and works also in a partition that
-- has lost its state.
--
-- KEYS[1]  the partition's prefix
-- ARGV[…]  users
--
-- Result   per user 1, or 0 when something of the user waits and no wake-up will come in time
local result = {}
for i, user in ipairs(ARGV) do
  local agenda = open_agenda(user)
  local due = earliest_later(agenda)
  local stood = tonumber(redis.call('ZSCORE', partition .. 'wakeups', user))
  local well = agenda.size == 0 and not due
  if not well and stood then
    local moment = due or math.huge
    for _, backlog in pairs(agenda.backlogs) do
      if not backlog.paused then moment = math.min(moment, backlog.next) end
    end
    -- A wake-up that is held or pending counts for now.
    well = find_task(user) and stood <= math.max(moment, now)
  end
  result[i] = well and 1 or 0
end
return result
