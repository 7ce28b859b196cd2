-- ended_leases_until returns the moment up to which ended leases of a partition are taken back. That is now, except after
-- a gap between sweeps: while Redis was away, or a hash slot was moving, nobody could settle either. Then live workers
-- have a truce in which to settle. A lease has one truce: one that ended before the previous truce is taken back in any
-- case.
--
-- The second result is true while what was to come at a moment of before comes too late, because the clock was set back
-- by more than ten seconds, see sweep.lua. The field `back` is by how much, at least.
local function ended_leases_until(partition, now, truce)
  local key = partition .. 'sweep'
  local f = redis.call('HMGET', key, 'last', 'truce', 'before', 'back')
  local last, began, before, back = tonumber(f[1] or now), tonumber(f[2] or 0), tonumber(f[3] or 0), f[4]
  if began > now then began, before = 0, 0 end -- the clock was set back
  if last > now + 10000000 then
    back = (back or 0) + last - now
    redis.call('HSET', key, 'back', digits(back))
    redis.call('HDEL', key, 'upto', 'rest')
  end
  if now - last > truce / 2 and now - began >= truce then before, began = began, now end
  redis.call('HSET', key, 'last', digits(now), 'truce', digits(began), 'before', digits(before))
  if now - began < truce then return before, back end
  return now, back
end
