-- alone is the beginning of take, for the commonest case, in the fewest steps: the tick's own notification is all that
-- its mailbox holds, without expiry and collapse key, the category is rolling, and it may go now. For everything else it
-- falls through to the rest of take, having changed nothing. It stands before the functions and does without them, since
-- loading them costs as much as it does itself; what it decides and charges must be what they would.
do
  local lane, name, tick, bypass = KEYS[1], ARGV[1] .. ':' .. ARGV[2], ARGV[3], tonumber(ARGV[9])
  local line = redis.call('ZRANGE', lane .. 'w:' .. name, 0, 1)
  if #line == 1 and line[1] == tick and ARGV[5] == '1' and ARGV[12] == '0'
      and redis.call('EXISTS', lane .. 'r:' .. name) == 0 then
    local key = lane .. 'n:' .. tick
    -- v arrival, p priority, g generation, o times returned, f failures, b payload, e expires, k collapse key,
    -- r what the tick was granted before, d deferrals, h history
    local f = redis.call('HMGET', key, 'v', 'p', 'g', 'o', 'f', 'b', 'e', 'k', 'r', 'd', 'h')
    if f[1] and not f[7] and not f[8] then
      local t = redis.call('TIME')
      local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
      local bypasses = tonumber(f[2]) <= bypass
      local logs = { lane .. 'l:' .. name, lane .. 'u:' .. ARGV[2] }
      local max, per, full = { 0, 0 }, { 0, 0 }, false
      local at, why = now, 0
      for rule = 1, tonumber(ARGV[13]) do
        local i = 11 + 3 * rule
        local n, span, log = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2] == '2' and 2 or 1
        if n > max[log] then max[log] = n end
        if span > per[log] then per[log] = span end
        local score = redis.call('ZREVRANGE', logs[log], n - 1, n - 1, 'WITHSCORES')[2]
        if score then
          full = true
          if not bypasses and score + span > at then at, why = score + span, rule end
        end
      end
      if at <= now + tonumber(ARGV[6]) and redis.call('HEXISTS', lane .. 'd', name) == 0 then
        local moment, generation = string.format('%.0f', at), tonumber(f[3] or 0) + 1
        local token = f[1] .. '#' .. generation
        redis.call('DEL', lane .. 'w:' .. name, lane .. 't:' .. name)
        for log = 1, 2 do
          if max[log] > 0 then
            redis.call('ZADD', logs[log], moment, token)
            if full then
              -- Keeps the newest of the past beside what lies ahead, as charge_log does.
              local spare = redis.call('ZCARD', logs[log]) - max[log]
              if spare > 0 then spare = spare - redis.call('ZCOUNT', logs[log], '(' .. string.format('%.0f', now), '+inf') end
              if spare > 0 then redis.call('ZREMRANGEBYRANK', logs[log], 0, spare - 1) end
            end
            redis.call('PEXPIRE', logs[log], string.format('%.0f', math.ceil((tonumber(ARGV[6]) + per[log]) / 1000) + 1000))
          end
        end
        redis.call('ZADD', lane .. 'e', string.format('%.0f', at + tonumber(ARGV[7])), tick)
        redis.call('HSET', key, 's', 's', 'g', generation, 'm', moment, 'q', ARGV[4])
        if f[9] then redis.call('HDEL', key, 'r') end
        redis.call('ZREM', lane .. 'm', name)
        redis.call('HINCRBY', lane .. 'c', 'x', 1)
        return { 'run', now, at, why, tick, generation, generation - tonumber(f[4] or 0), tonumber(f[5] or 0),
          tonumber(f[1]) + 1577836800000000, f[6], '', 0, tonumber(f[10] or 0), f[11] or '', EPOCH }
      end
    end
  end
end
