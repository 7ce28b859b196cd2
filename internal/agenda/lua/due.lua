-- due tells in which of some partitions a sweep would find something, and shows others that this process is alive. To
-- make the functions of sweep.lua takes longer than to look at an idle partition without them. Where nothing is in
-- flight and nobody waits, there is no lease to take back and no wake-up to leave to a process that lives: nothing is
-- noted there. The first look after that begins a truce, which ends before any lease given in the meantime does.
--
-- KEYS     per partition: its prefix, and a second key, see PartitionKeys
-- ARGV[1]  the process that sweeps
-- ARGV[2]  how long after its moment a wake-up counts as missing, in µs
-- ARGV[3]  truce in µs, see truce.lua
--
-- Result   the places of these partitions among KEYS, from 1
local process, grace, truce = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_micros()

-- refuses reports whether a sweep of a partition refuses; it says why.
local refuses
if GUARDED then
  local on = here()
  function refuses(partition)
    local known = redis.call('MGET', partition .. 'epoch', partition .. 'built')
    return not known[1] or on ~= '' and known[2] ~= on
  end
else
  function refuses(partition)
    return redis.call('EXISTS', partition .. 'epoch', partition .. 'mark', partition .. 'rebuild') > 0
  end
end

local function holds_due(set, due)
  return #redis.call('ZRANGEBYSCORE', set, '-inf', digits(due), 'LIMIT', '0', '1') > 0
end

local function is_empty(partition)
  return redis.call('EXISTS', partition .. 'e', partition .. 'y', partition .. 'wakeups', partition .. 'elsewhere') == 0
end

local due = {}
for i = 1, #KEYS, 2 do
  local partition = KEYS[i]
  if refuses(partition) then
    due[#due + 1] = i
  elseif not is_empty(partition) then
    redis.call('HSET', partition .. 'holders', process, digits(now))
    local ended, set_back = ended_leases_until(partition, now, truce)
    if set_back or holds_due(partition .. 'e', ended) or holds_due(partition .. 'y', now) or
      holds_due(partition .. 'wakeups', now - grace) or
      not GUARDED and redis.call('EXISTS', partition .. 'elsewhere') == 1 then
      due[#due + 1] = i
    end
  end
end
return due
